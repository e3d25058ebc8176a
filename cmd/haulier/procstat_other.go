//go:build !linux

package main

import (
	"os/exec"
	"strconv"
	"strings"
)

// processStat asks ps; of a process that is gone everything is zero.
func processStat(pid int) (u processUse) {
	out, err := exec.Command("ps", "-o", "rss=,time=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return u
	}
	fields := strings.Fields(string(out))
	if len(fields) != 2 {
		return u
	}
	kilo, _ := strconv.ParseInt(fields[0], 10, 64)
	u.RSS = kilo << 10
	for part := range strings.SplitSeq(fields[1], ":") { // [hours:]minutes:seconds
		v, _ := strconv.ParseFloat(part, 64)
		u.CPU = u.CPU*60 + v
	}
	return u
}
