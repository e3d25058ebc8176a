package services

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// PostgresServer is a PostgreSQL server of the tests' own: its data in a folder of its own, reached by a socket in that folder.
type PostgresServer struct {
	Dir      string
	bin      string // folder of the programs
	settings []string
	at       Place
	wal      string              // where the write-ahead log lies on a disk of its own; "": with the data
	as       *syscall.Credential // who runs it; nil: who runs the test

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	said bytes.Buffer  // its log; to be read after done
}

// URL of it, as the user and in the database that initdb has made.
func (p *PostgresServer) URL() string {
	if p.at.Host != "" {
		return "postgres://haulier@" + p.at.Host + ":5432/postgres"
	}
	return "postgres://haulier@/postgres?host=" + p.Dir
}

var sharedPostgres struct {
	once   sync.Once
	server *PostgresServer
	err    error
}

// Postgres is the server that all tests of the process share; each takes a schema of its own. It does not sync.
// StopPostgres ends it.
func Postgres(tb testing.TB) *PostgresServer {
	tb.Helper()
	bin := needPostgres(tb)
	s := &sharedPostgres
	s.once.Do(func() { s.server, s.err = newPostgres(bin, "fsync=off", "full_page_writes=off") })
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.server
}

// StopPostgres ends the shared server, if there is one, and removes its folder.
func StopPostgres() {
	if p := sharedPostgres.server; p != nil {
		p.remove()
	}
}

// StartPostgres starts a server with further settings, and removes it at the end of the test.
func StartPostgres(tb testing.TB, settings ...string) *PostgresServer {
	tb.Helper()
	p, err := newPostgres(needPostgres(tb), settings...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.remove)
	return p
}

// StartPostgresAt is StartPostgres at another place, where it is reached over TCP.
func StartPostgresAt(tb testing.TB, at Place, settings ...string) *PostgresServer {
	tb.Helper()
	p, err := emptyPostgres(needPostgres(tb), settings...)
	if err != nil {
		tb.Fatal(err)
	}
	p.at = at
	tb.Cleanup(p.remove)
	if err := p.initialize(); err != nil {
		tb.Fatal(err)
	}
	everybody := []byte("local all all trust\nhost all all samenet trust\n")
	if err := os.WriteFile(filepath.Join(p.Data(), "pg_hba.conf"), everybody, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := p.Start(); err != nil {
		tb.Fatal(err)
	}
	return p
}

// StartStandby starts a server that follows another one, and removes it at the end of the test.
func StartStandby(tb testing.TB, primary *PostgresServer, settings ...string) *PostgresServer {
	tb.Helper()
	p, err := emptyPostgres(primary.bin, settings...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.remove)
	args := []string{"-D", p.Data(), "-h", primary.Dir, "-U", "haulier", "-R", "-X", "stream", "-c", "fast", "--no-sync"}
	if err = p.hire(p.Dir); err == nil {
		err = p.prepare("pg_basebackup", args...)
	}
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		tb.Fatal("standby: ", err)
	}
	return p
}

// needPostgres finds the programs, and skips the test where there are none; in CI that is a failure.
func needPostgres(tb testing.TB) (bin string) {
	tb.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin"} {
		found, _ := filepath.Glob(pattern) // the patterns are sound
		slices.Sort(found)
		for _, dir := range slices.Backward(found) {
			if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
				return dir
			}
		}
	}
	const what = "PostgreSQL is not installed; on Debian: apt-get install postgresql; on macOS: brew install postgresql@17"
	if os.Getenv("CI") == "true" {
		tb.Fatal(what)
	}
	tb.Skip(what)
	return ""
}

// StartPostgresOnDisks starts a server whose data and whose write-ahead log have a small disk each, of sizes such as 96m.
// The test is skipped where there can be none.
func StartPostgresOnDisks(tb testing.TB, data, wal string, settings ...string) *PostgresServer {
	tb.Helper()
	p, err := emptyPostgres(needPostgres(tb), settings...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(p.Dir) }) // of the system's temporary files
	p.wal = filepath.Join(p.Dir, "wal")
	for dir, size := range map[string]string{p.Data(): data, p.wal: wal} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			tb.Fatal(err)
		}
		SmallDisk(tb, dir, size)
	}
	tb.Cleanup(p.Kill)
	if err := p.initialize(); err != nil {
		tb.Fatal(err)
	}
	if err := p.Start(); err != nil {
		tb.Fatal(err)
	}
	return p
}

// newPostgres makes a folder with an empty database and starts a server over it.
func newPostgres(bin string, settings ...string) (*PostgresServer, error) {
	p, err := emptyPostgres(bin, settings...)
	if err != nil {
		return nil, err
	}
	if err = p.initialize(); err == nil {
		err = p.Start()
	}
	if err != nil {
		p.remove()
		return nil, err
	}
	return p, nil
}

// emptyPostgres makes the folder of a server that is yet to be initialized.
func emptyPostgres(bin string, settings ...string) (*PostgresServer, error) {
	dir, err := os.MkdirTemp("", "haulier-pg-")
	if err != nil {
		return nil, err
	}
	return &PostgresServer{Dir: dir, bin: bin, settings: settings}, nil
}

// initialize makes the database.
func (p *PostgresServer) initialize() error {
	args := []string{"-D", p.Data(), "-U", "haulier", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"}
	own := []string{p.Dir}
	if p.wal != "" {
		args = append(args, "--waldir", p.wal, "--wal-segsize=1")
		own = append(own, p.Data(), p.wal)
	}
	if err := p.hire(own...); err != nil {
		return err
	}
	return p.prepare("initdb", args...)
}

// hire finds who may run the server, which root may not, and gives them the folders.
func (p *PostgresServer) hire(folders ...string) error {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid) // of a system with numbers for users
		gid, _ := strconv.Atoi(u.Gid)
		p.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		for _, dir := range folders {
			if err := os.Chown(dir, uid, gid); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

// prepare runs one of PostgreSQL's programs to its end.
func (p *PostgresServer) prepare(program string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, program), args...)
	cmd.Dir = p.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}

// Data is the folder of the tables.
func (p *PostgresServer) Data() string { return filepath.Join(p.Dir, "data") }

// WAL is the folder of the write-ahead log.
func (p *PostgresServer) WAL() string { return filepath.Join(p.Data(), "pg_wal") }

// Start starts the server, again after Kill or Stop, and waits until it takes connections.
func (p *PostgresServer) Start() error {
	args := []string{"-D", p.Data(), "-k", p.Dir, "-h", p.at.Host}
	for _, s := range slices.Concat([]string{"max_connections=300", "shared_buffers=64MB"}, p.settings) {
		args = append(args, "-c", s)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said.Reset()
	p.done = make(chan struct{})
	p.cmd = exec.Command(filepath.Join(p.bin, "postgres"), args...)
	p.cmd.Dir = p.Dir
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	p.cmd.SysProcAttr = endsWithTests(p.as)
	started := make(chan error)
	go func() {
		// Linux ends the child together with the thread that has started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := p.at.Within(p.cmd.Start)
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // it is ended by a signal
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	return p.awaitReady()
}

// awaitReady asks until the server takes connections.
func (p *PostgresServer) awaitReady() error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		select {
		case <-p.done:
			return fmt.Errorf("postgres ended: %s", p.said.String())
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err := exec.CommandContext(ctx, filepath.Join(p.bin, "pg_isready"), "-q", "-h", p.Dir).Run()
		cancel()
		if err == nil {
			return nil
		}
	}
	return errors.New("postgres takes no connections after a minute")
}

// Kill ends it at once, as a crash does: what was not synced is gone.
func (p *PostgresServer) Kill() { p.end(syscall.SIGQUIT) }

// Stop ends it in order, though there are connections.
func (p *PostgresServer) Stop() { p.end(syscall.SIGINT) }

func (p *PostgresServer) end(signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Signal(signal) // it may have ended
	<-p.done
}

func (p *PostgresServer) remove() {
	p.Kill()
	_ = os.RemoveAll(p.Dir) // of the system's temporary files
}
