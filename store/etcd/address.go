package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/haulier/haulier"
)

// address is what a URL says.
type address struct {
	name   string // the URL without its password, for messages
	config clientv3.Config
	prefix string
	fewOps bool // an etcd that takes few operations at once is wanted
}

// options are what may follow the question mark.
var options = append([]string{"few_ops"}, tlsOptions...)

var tlsOptions = []string{"ca", "cert", "key", "server_name", "skip_verify"}

// A connection that has gone silent for so long is given up.
const (
	dialTimeout      = 5 * time.Second
	keepAliveTime    = 10 * time.Second
	keepAliveTimeout = 5 * time.Second
)

// redial is how often a member that does not answer is tried again: it may be back at any time, and calls wait for it.
var redial = backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}

func parseAddress(text string) (*address, error) {
	scheme, hosts, rest := cutHosts(text)
	u, err := url.Parse(rest)
	if err != nil {
		return nil, fmt.Errorf("etcd store: %w: the URL can't be read; it is like etcd://host1:2379,host2:2379/haulier", haulier.ErrInvalid)
	}
	u.Scheme = scheme
	a := &address{name: strings.Replace(u.Redacted(), hostMark, hosts, 1)}
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("etcd store %s: %w: %s", a.name, haulier.ErrInvalid, fmt.Sprintf(format, args...))
	}
	if scheme != "etcd" && scheme != "etcds" || hosts == "" {
		return nil, wrong("the URL begins with etcd:// or, for TLS, etcds://, and a host")
	}
	q := u.Query()
	for key := range q {
		if !slices.Contains(options, key) {
			return nil, wrong("there is no option %q; the options are %s", key, strings.Join(options, ", "))
		}
	}
	a.config = clientv3.Config{
		DialTimeout: dialTimeout, DialKeepAliveTime: keepAliveTime, DialKeepAliveTimeout: keepAliveTimeout,
		Logger: zap.NewNop(), MaxUnaryRetries: 1, // what is repeated is decided in txn.go
		DialOptions: []grpc.DialOption{
			grpc.WithReadBufferSize(128 << 10), grpc.WithWriteBufferSize(128 << 10),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: redial, MinConnectTimeout: dialTimeout}),
		},
	}
	a.config.Username = u.User.Username()
	a.config.Password, _ = u.User.Password()
	for host := range strings.SplitSeq(hosts, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "2379")
		}
		a.config.Endpoints = append(a.config.Endpoints, map[string]string{"etcd": "http://", "etcds": "https://"}[scheme]+host)
	}
	if scheme == "etcds" {
		if a.config.TLS, err = tlsConfig(q); err != nil {
			return nil, wrong("%v", err)
		}
	} else if slices.ContainsFunc(tlsOptions, q.Has) {
		return nil, wrong("%s are for TLS, with which the URL begins with etcds://", strings.Join(tlsOptions, ", "))
	}
	if q.Has("few_ops") {
		if a.fewOps, err = strconv.ParseBool(q.Get("few_ops")); err != nil {
			return nil, wrong("few_ops is 1 or 0")
		}
	}
	a.prefix = "/haulier/"
	if p := strings.Trim(u.Path, "/"); p != "" {
		a.prefix = "/" + p + "/"
	}
	return a, nil
}

// hostMark stands for the hosts, of which package url knows one only.
const hostMark = "hosts"

// cutHosts takes scheme and hosts from a URL. rest is the URL with hostMark in their place.
func cutHosts(text string) (scheme, hosts, rest string) {
	scheme, after, _ := strings.Cut(text, "://")
	end := strings.IndexAny(after, "/?#")
	if end < 0 {
		end = len(after)
	}
	begin := strings.LastIndexByte(after[:end], '@') + 1
	return scheme, after[begin:end], "etcd://" + after[:begin] + hostMark + after[end:]
}

func tlsConfig(q url.Values) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: q.Get("server_name")}
	if q.Has("skip_verify") {
		skip, err := strconv.ParseBool(q.Get("skip_verify"))
		if err != nil {
			return nil, fmt.Errorf("skip_verify is 1 or 0")
		}
		c.InsecureSkipVerify = skip
	}
	if path := q.Get("ca"); path != "" {
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s has no certificate in PEM form", path)
		}
	}
	if q.Has("cert") || q.Has("key") {
		pair, err := tls.LoadX509KeyPair(q.Get("cert"), q.Get("key"))
		if err != nil {
			return nil, fmt.Errorf("cert and key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
