package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ticksPerSecond is USER_HZ, in which Linux tells CPU times on every architecture.
const ticksPerSecond = 100

// processStat reads /proc (see proc(5)); of a process that is gone everything is zero.
func processStat(pid int) (u processUse) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u
	}
	// The name, in parentheses, may have anything in it. Fields 14 and 15 are utime and stime; after the name comes field 3.
	text := string(b)
	if fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]); len(fields) > 12 {
		user, _ := strconv.ParseFloat(fields[11], 64)
		system, _ := strconv.ParseFloat(fields[12], 64)
		u.CPU = (user + system) / ticksPerSecond
	}
	status := fmt.Sprintf("/proc/%d/status", pid)
	u.RSS, u.Peak = kilobytes(fromFile(status, "VmRSS")), kilobytes(fromFile(status, "VmHWM"))
	return u
}

func kilobytes(s string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(s, " kB"), 10, 64)
	return n << 10
}
