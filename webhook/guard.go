package webhook

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/haulier/haulier"
)

// inside are networks that are not of the open internet, besides those that netip knows.
var inside = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // shared by providers and overlays
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), // these three hold an IPv4 address, which may be any
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("fec0::/10"),
}

// Private reports whether an address is not of the open internet: loopback, link-local (as of the metadata of clouds), private and the like.
func Private(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || !a.IsGlobalUnicast() || a.IsPrivate() {
		return true
	}
	for _, p := range inside {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// dialer connects as the configuration allows. Addresses are looked at after names were resolved, so
// that no name, redirect or second answer of a name server leads around it.
func dialer(private bool) *net.Dialer {
	d := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	if private {
		return d
	}
	d.Control = func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err == nil && !Private(at.Addr()) {
			return nil
		}
		return fmt.Errorf("%w: %s is an address of the network inside: allow such with --allow-private", haulier.ErrForbidden, address)
	}
	return d
}
