package services_test

import (
	"context"
	"flag"
	"fmt"
	"os/signal"
	"syscall"
	"testing"

	"github.com/haulier/haulier/store/services"
)

var hold = flag.Bool("services.hold", false, "start all servers for use by hand, and keep them until the first signal")

// TestHold is what `make services` runs: it names the servers that the tests use, for a haulier serve by hand.
func TestHold(t *testing.T) {
	if !*hold {
		t.Skip("only for make services")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	defer services.StopRedis()
	defer services.StopPostgres()
	defer services.StopEtcd()
	for _, url := range []string{services.Postgres(t).URL(), services.Redis(t).URL(""), services.Etcd(t).URL("haulier")} {
		fmt.Printf("haulier serve --store '%s'\n", url)
	}
	fmt.Println("Stop them with Ctrl-C. What is in them is gone then.")
	<-ctx.Done()
}
