package redis

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/haulier/haulier"
)

// advice is what to do when Redis answers with a code. All of these leave undone what was asked.
var advice = map[string]string{
	"READONLY":    "it is a replica, which takes no writes; use the URL of the primary, or name the Sentinels and master_set",
	"LOADING":     "it is still loading its data; try again when it is done",
	"OOM":         "its memory is used up; raise maxmemory, or let ended jobs be purged sooner",
	"MISCONF":     "it can't write to its disk; look at its log, and make room",
	"BUSY":        "a script has been running for long; try again",
	"MASTERDOWN":  "it is a replica that has lost its primary; try again when it has one",
	"CLUSTERDOWN": "its Cluster is down; look at CLUSTER INFO",
	"TRYAGAIN":    "its Cluster is moving keys; try again",
	"NOREPLICAS":  "it has fewer replicas than min-replicas-to-write says; bring them back",
	"NOAUTH":      "it wants a password; put it into the URL, as in redis://user:password@host",
	"WRONGPASS":   "user or password of the URL are wrong",
	"NOPERM":      "the user of the URL lacks a permission; docs/redis.md lists what is needed",
}

// translate turns an error of the client into one of ours. What Redis says is told apart by its code, the first word.
func translate(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if reply, ok := rueidis.IsRedisErr(err); ok {
		code, _, _ := strings.Cut(reply.Error(), " ")
		switch what, known := advice[code]; {
		case known:
			return fmt.Errorf("redis: %w: %s (%.200s)", haulier.ErrUnavailable, what, reply.Error())
		case code == "WRONGTYPE":
			return fmt.Errorf("redis: %w: a key is not what it should be; does something else use the prefix? (%.200s)", haulier.ErrCorrupt, reply.Error())
		}
		return fmt.Errorf("redis: %.300s", reply.Error())
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if rueidis.IsParseErr(err) {
		return corrupt("an answer is not of the kind that was asked for (%v)", err)
	}
	return fmt.Errorf("redis: %w: no answer; is it running, and can it be reached? (%v)", haulier.ErrUnavailable, err)
}

func noScript(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && reply.IsNoScript()
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("redis: %w: %s", haulier.ErrCorrupt, fmt.Sprintf(format, args...))
}
