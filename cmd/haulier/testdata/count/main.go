// Count is a module for the examples of docs/executors.md: it counts words, or lines, of its input or of files.
package main

import (
	"bytes"
	"io"
	"os"
	"strconv"
)

func main() {
	b, err := io.ReadAll(os.Stdin)
	if len(os.Args) == 3 && os.Args[1] == "--folder" {
		b = nil
		var entries []os.DirEntry
		entries, err = os.ReadDir(os.Args[2])
		for _, e := range entries {
			var more []byte
			if more, err = os.ReadFile(os.Args[2] + "/" + e.Name()); err != nil {
				break
			}
			b = append(b, more...)
		}
		if err == nil {
			err = os.WriteFile("total.txt", []byte(strconv.Itoa(len(bytes.Fields(b)))), 0o644)
		}
	}
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(66)
	}
	n := len(bytes.Fields(b))
	if len(os.Args) == 3 && os.Args[1] == "--per" {
		n = bytes.Count(b, []byte("\n"))
	}
	os.Stderr.WriteString(os.Args[0] + " counts\n")
	os.Stdout.WriteString(strconv.Itoa(n))
}
