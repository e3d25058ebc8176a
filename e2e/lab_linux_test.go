package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/haulier/haulier/store/services"
)

// lab is a network of its own: machines, which are network namespaces, at a switch, which is a bridge in another one. The tests' own
// place is at the switch too. Namespaces have no names: they are gone when the test and what runs in them are, however these end.
type lab struct {
	t        *testing.T
	hub      services.Place
	subnet   string // first three numbers of all addresses
	machines []*machine
}

// machine is a place in the lab.
type machine struct {
	services.Place
	lab  *lab
	port string // of the switch
}

// nobody is a hardware address that no machine has.
const nobody = "02:00:00:00:00:01"

// newLab makes a lab of n machines; nil where that takes more than this user, or this system, has.
func newLab(t *testing.T, n int) *lab {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil || os.Getuid() != 0 {
		t.Log("no network of its own: that takes root, and ip of iproute2")
		return nil
	}
	home, err := os.Open(ownNet)
	if err != nil {
		return nil
	}
	t.Cleanup(func() { home.Close() })
	l := &lab{t: t}
	l.hub.Net = newNamespace(t, home)
	if l.hub.Net == nil {
		return nil
	}
	if err := l.ip(l.hub, "link add switch type bridge", "link set switch up"); err != nil {
		t.Log("no network of its own: ", err)
		return nil
	}
	if err := l.attach(home); err != nil {
		t.Log("no network of its own: ", err)
		return nil
	}
	for i := range n {
		m := &machine{lab: l, port: fmt.Sprint("port", i)}
		m.Net, m.Host = newNamespace(t, home), fmt.Sprint(l.subnet, ".", 10+i)
		if m.Net == nil {
			t.Fatal("one network namespace can be made, and no further one")
		}
		if err := l.plug(m); err != nil {
			t.Fatal(err)
		}
		l.machines = append(l.machines, m)
	}
	return l
}

// attach gives the tests' own place an address in a range that is for tests of networks (RFC 2544), the first that is free.
func (l *lab) attach(home *os.File) (err error) {
	for i := range 250 {
		name := fmt.Sprint("haulier", i)
		if err = l.ip(l.hub, fmt.Sprintf("link add tests type veth peer name %s netns %s", name, path(home)), "link set tests master switch up"); err != nil {
			continue // another test has this one
		}
		l.subnet = fmt.Sprint("198.18.", i)
		return l.ip(services.Place{}, fmt.Sprintf("addr add %s.1/24 dev %s", l.subnet, name), fmt.Sprintf("link set %s up", name))
	}
	return err
}

// plug connects a machine to the switch.
func (l *lab) plug(m *machine) error {
	err := l.ip(l.hub, fmt.Sprintf("link add %s type veth peer name eth0 netns %s", m.port, path(m.Net)), fmt.Sprintf("link set %s master switch up", m.port))
	if err != nil {
		return err
	}
	return l.ip(m.Place, fmt.Sprintf("addr add %s/24 dev eth0", m.Host), "link set eth0 up", "link set lo up")
}

func path(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }

// ip carries out commands of ip(8) at a place.
func (l *lab) ip(at services.Place, commands ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := at.Within(cmd.Start); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("ip %q: %w: %s", commands, err, said.String())
	}
	return nil
}

// newNamespace makes one that lives as long as the test; nil where that is not allowed. It has this goroutine enter the namespace, and leave it again.
func newNamespace(t *testing.T, home *os.File) *os.File {
	t.Helper()
	var made *os.File
	err := services.Place{Net: home}.Within(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			made, err = os.Open(ownNet)
		}
		return err
	})
	if err != nil {
		t.Log("no network of its own: ", err)
		return nil
	}
	t.Cleanup(func() { made.Close() })
	return made
}

// ownNet is the network namespace of the thread that asks.
const ownNet = "/proc/thread-self/ns/net"

// Set is for the cable between the machine and the switch: whatever comes or goes is lost, unless it is up.
func (m *machine) Set(s services.LinkState) {
	state := "down"
	if s == services.LinkUp {
		state = "up"
	}
	m.lab.must(m.lab.hub, fmt.Sprintf("link set %s %s", m.port, state))
}

func (l *lab) must(at services.Place, command string) {
	if err := l.ip(at, command); err != nil {
		l.t.Error(err)
	}
}

// way is what two machines send each other.
type way struct {
	a, b  *machine
	state services.LinkState
}

// Set makes a way that is down refuse whoever sends, and a silent one lose what is sent. In both cases connections stay, and nothing comes through.
func (w *way) Set(s services.LinkState) {
	for _, ends := range [][2]*machine{{w.a, w.b}, {w.b, w.a}} {
		from, to := ends[0].Place, ends[1].Host
		change := map[services.LinkState][2]string{
			services.LinkDown:   {"route add unreachable " + to, "route del unreachable " + to},
			services.LinkSilent: {"neigh replace " + to + " lladdr " + nobody + " nud permanent dev eth0", "neigh del " + to + " dev eth0"},
		}
		if w.state != services.LinkUp {
			w.a.lab.must(from, change[w.state][1])
		}
		if s != services.LinkUp {
			w.a.lab.must(from, change[s][0])
		}
	}
	w.state = s
}
