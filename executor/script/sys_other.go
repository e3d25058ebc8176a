//go:build !linux

package script

import "syscall"

// ownGroup puts a context into a process group of its own. It ends when the worker's end closes its pipe.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// rss is how many bytes of memory a process has: here that can't be told.
func rss(int) int64 { return 0 }
