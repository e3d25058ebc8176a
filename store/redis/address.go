package redis

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/haulier/haulier"
)

// address is what a URL says.
type address struct {
	name     string // the URL without its password, for messages
	option   rueidis.ClientOption
	prefix   string
	volatile bool // a Redis that forgets is wanted
}

// options are what may follow the question mark: our own two, and those of the client.
var options = []string{"prefix", "volatile", "addr", "master_set", "client_name", "dial_timeout", "write_timeout", "skip_verify", "db"}

func parseAddress(text string) (*address, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("redis store: %w: the URL can't be read; it is like redis://user:password@host:6379/0", haulier.ErrInvalid)
	}
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("redis store %s: %w: %s", u.Redacted(), haulier.ErrInvalid, fmt.Sprintf(format, args...))
	}
	if u.Scheme != "redis" && u.Scheme != "rediss" || u.Host == "" {
		return nil, wrong("the URL begins with redis:// or, for TLS, rediss://, and a host")
	}
	a := &address{name: u.Redacted(), prefix: "haulier"}
	q := u.Query()
	for key := range q {
		if !slices.Contains(options, key) {
			return nil, wrong("there is no option %q; the options are %s", key, strings.Join(options, ", "))
		}
	}
	if q.Has("prefix") {
		a.prefix = q.Get("prefix")
	}
	if a.prefix == "" || len(a.prefix) > 100 || strings.ContainsAny(a.prefix, "{}") {
		return nil, wrong("the prefix is a name without braces, which are added: haulier gives keys such as {haulier}:jobs")
	}
	if q.Has("volatile") {
		if a.volatile, err = strconv.ParseBool(q.Get("volatile")); err != nil {
			return nil, wrong("volatile is 1 or 0")
		}
	}
	if a.option, err = rueidis.ParseURL(text); err != nil {
		return nil, wrong("%v", err)
	}
	a.option.DisableCache = true // nothing is read twice for which it would be worth to be told of each change
	a.option.DisableRetry = true // a script is not to run twice; what only reads is repeated by ask and read
	a.option.ReadBufferEachConn, a.option.WriteBufferEachConn = 128<<10, 128<<10
	if a.option.ClientName == "" {
		a.option.ClientName = "haulier"
	}
	return a, nil
}

// server is what was found out about a Redis.
type server struct {
	version [2]int
	run     string // names this run of it
	policy  string // what it does when memory is used up
	aof     bool   // it appends what is written to a file
	fsync   string // when that is synced; "": it does not say
}

func (v *server) hasWaitAOF() bool { return v.version[0] > 7 || v.version[0] == 7 && v.version[1] >= 2 }

// inspect asks for the settings. Of a Cluster it asks the node that has the keys.
func (s *Store) inspect(ctx context.Context) (*server, error) {
	info, err := s.run(ctx, infoScript).ToString()
	if err != nil {
		return nil, translate(ctx, err)
	}
	v := &server{}
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch key {
		case "redis_version":
			major, rest, _ := strings.Cut(value, ".")
			minor, _, _ := strings.Cut(rest, ".")
			v.version[0], _ = strconv.Atoi(major) // what is no number is too old
			v.version[1], _ = strconv.Atoi(minor)
		case "run_id":
			v.run = value
		case "maxmemory_policy":
			v.policy = value
		case "aof_enabled":
			v.aof = value == "1"
		}
	}
	for _, node := range s.client.Nodes() {
		// Services that rent out Redis often forbid this; then nothing is known of the syncs.
		if config, err := node.Do(ctx, node.B().ConfigGet().Parameter("appendfsync").Build()).AsStrMap(); err == nil {
			if f := config["appendfsync"]; v.fsync == "" || v.fsync == "always" {
				v.fsync = f // in a Cluster the weakest counts
			}
		}
	}
	return v, nil
}

// check refuses settings by which jobs would be lost.
func (v *server) check(volatile bool) error {
	switch {
	case v.version[0] < 7:
		return fmt.Errorf("%w: it is Redis %d.%d, and 7.0 or later is needed; upgrade it", haulier.ErrInvalid, v.version[0], v.version[1])
	case v.policy != "noeviction":
		return fmt.Errorf("%w: with maxmemory-policy %s Redis throws jobs away when its memory is used up; set it to noeviction, "+
			"or use a Redis that is no cache", haulier.ErrInvalid, v.policy)
	case !v.aof && !volatile:
		return fmt.Errorf("%w: this Redis does not append what is written to a file, and would forget acknowledged jobs when it ends; "+
			"set appendonly yes (and appendfsync always, to lose nothing at power loss), or add volatile=1 to the URL to accept that", haulier.ErrInvalid)
	}
	return nil
}
