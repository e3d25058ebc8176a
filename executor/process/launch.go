package process

import (
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// exitStatus is what the kernel says of a process that has ended.
type exitStatus struct {
	status syscall.WaitStatus
	usage  syscall.Rusage
}

// launcher starts processes and reaps them. All are started by one thread that
// lives as long as the launcher: on Linux the kernel kills them when that
// thread ends, so a thread of the runtime's choice would not do.
type launcher struct {
	// reapAll: the process has no other children than these and the orphans that
	// they leave. All are reaped in one place, without a waiting thread for each.
	reapAll bool

	// mu is held while a process is started, so that it is not reaped before it is known.
	mu      sync.Mutex
	live    map[int]func(exitStatus)
	starts  chan func()
	stopped chan struct{}
	wg      sync.WaitGroup
}

func newLauncher(reapAll bool) *launcher {
	l := &launcher{reapAll: reapAll, live: map[int]func(exitStatus){}, starts: make(chan func()), stopped: make(chan struct{})}
	l.wg.Add(1)
	go l.forks()
	if reapAll {
		l.wg.Add(1)
		go l.reaps()
	}
	return l
}

// close ends the launcher. Nothing may be started any more, and everything must have ended.
func (l *launcher) close() {
	close(l.stopped)
	l.wg.Wait()
}

func (l *launcher) forks() {
	defer l.wg.Done()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread() // or else the thread would end, and the commands with it
	for {
		select {
		case f := <-l.starts:
			f()
		case <-l.stopped:
			return
		}
	}
}

// start runs a program and calls ended once, from any goroutine, when it has ended. With attr.Sys.Ptrace, see confine,
// the program has not done anything yet when bind is called.
func (l *launcher) start(path string, argv []string, attr *syscall.ProcAttr, bind func(pid int) error, ended func(exitStatus)) (pid int, err error) {
	done := make(chan struct{})
	l.starts <- func() {
		defer close(done)
		l.mu.Lock()
		defer l.mu.Unlock()
		if pid, err = syscall.ForkExec(path, argv, attr); err == nil && bind != nil {
			err = confine(pid, bind)
		}
		if err == nil && l.reapAll {
			l.live[pid] = ended
		}
	}
	<-done
	if err == nil && !l.reapAll {
		l.wg.Add(1)
		go l.await(pid, ended)
	}
	return pid, err
}

// await reaps one process.
func (l *launcher) await(pid int, ended func(exitStatus)) {
	defer l.wg.Done()
	var st exitStatus
	for {
		if _, err := syscall.Wait4(pid, &st.status, 0, &st.usage); err != syscall.EINTR {
			break
		}
	}
	ended(st)
}

// reaps reaps whatever has ended, orphans too.
func (l *launcher) reaps() {
	defer l.wg.Done()
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, syscall.SIGCHLD)
	defer signal.Stop(sig)
	for {
		for l.reapOne() {
		}
		select {
		case <-sig:
		case <-l.stopped:
			return
		}
	}
}

func (l *launcher) reapOne() bool {
	var st exitStatus
	l.mu.Lock()
	pid, err := syscall.Wait4(-1, &st.status, syscall.WNOHANG, &st.usage)
	ended := l.live[pid]
	delete(l.live, pid)
	l.mu.Unlock()
	if ended != nil {
		ended(st)
	}
	return pid > 0 || err == syscall.EINTR
}

// signalGroup signals all processes of a group and reports whether there were any.
func signalGroup(pid int, sig syscall.Signal) bool { return syscall.Kill(-pid, sig) == nil }

// cpuTime is user and system time.
func (s *exitStatus) cpuTime() time.Duration {
	return time.Duration(s.usage.Utime.Nano() + s.usage.Stime.Nano())
}
