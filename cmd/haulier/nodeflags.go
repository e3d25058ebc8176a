package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
)

const defaultListen = "127.0.0.1:7480"

// nodeFlags are the flags of the commands that open a store and serve it.
type nodeFlags struct {
	Store      string
	Data       string
	Durability string
	NoMigrate  bool
	Listen     string
	Insecure   bool
	Hosts      []string
	// AllowPrivate lets the server call addresses of the network inside.
	AllowPrivate bool
	// Deliveries is how many notifications are delivered at once; 0: none.
	Deliveries int
	BlobQuota  byteSize
	Journal    string // folder; "": none
	// Blobs is the folder or the URL of blobs; empty: a folder in the data folder.
	Blobs string
}

// registerStore adds the flags that say which store.
func (f *nodeFlags) registerStore(fs *pflag.FlagSet) {
	fs.StringVar(&f.Data, "data", "", "`DIR` for all that the server keeps; $XDG_DATA_HOME/haulier unless said [env]")
	fs.StringVar(&f.Store, "store", "", "`URL` of the store: pebble:DIR, redis://HOST:PORT/DB, postgres://USER:PASSWORD@HOST/DATABASE, etcd://HOST:2379,HOST:2379/PREFIX, or mem: for a trial in memory; pebble in the data folder unless said [env]")
	fs.StringVar(&f.Blobs, "blobs", "", "`PLACE` of files, large payloads and outputs, which all servers over one store must see: a folder, or s3://BUCKET?region=REGION; in the data folder unless said [env]")
	fs.StringVar(&f.Durability, "durability", "sync", "`WHAT` an acknowledged write survives: sync (power loss) or process (kill -9 only, and faster) [env]")
	fs.BoolVar(&f.NoMigrate, "no-migrate", false, "leave a database's tables as they are: haulier store migrate changes them [env]")
}

func (f *nodeFlags) registerListen(fs *pflag.FlagSet) {
	fs.StringVar(&f.Listen, "listen", defaultListen, "`ADDR` to listen on [env]")
	fs.Var(&f.BlobQuota, "blob-quota", "`SIZE` of files, large payloads and outputs that a tenant may keep, such as 100GiB; no bound unless said")
	fs.IntVar(&f.Deliveries, "deliveries", 20, "`N` notifications of jobs' ends that the server delivers at once; 0: none, which leaves them to workers that run http tasks")
}

// checkListen splits the address, and tells whether others than this machine reach it.
func (f *nodeFlags) checkListen() (beyond bool, err error) {
	host, _, err := net.SplitHostPort(f.Listen)
	if err != nil {
		return false, usagef("--listen is %q: it is an address and a port, such as %s", f.Listen, defaultListen)
	}
	return !client.Loopback(host), nil
}

// listen opens the port.
func (f *nodeFlags) listen(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", f.Listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%w: %s is in use: a server runs there already? Use that one, or choose another address with --listen", haulier.ErrUnavailable, f.Listen)
	case err != nil:
		return nil, fmt.Errorf("%w; choose another address with --listen", err)
	}
	return l, nil
}

// localURL is how commands on this machine reach what listens at a; the port
// is what names the token that they are left.
func localURL(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return "http://" + a.String()
	}
	if ip := net.ParseIP(host); ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
