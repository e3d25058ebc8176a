// Probe is a program for the tests of package wasi: what it does is its first argument.
package main

import (
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	switch os.Args[1] {
	case "upper":
		b, err := io.ReadAll(os.Stdin)
		must(err)
		say(strings.ToUpper(string(b)))
	case "say":
		say(strings.Join(os.Args[2:], " "))
		os.Stderr.WriteString(os.Args[0] + " " + os.Getenv("GREETING") + "\n")
		os.Exit(len(os.Args[2:]))
	case "files":
		b, err := os.ReadFile("in/a.txt")
		must(err)
		must(os.MkdirAll("out/deep", 0o755))
		must(os.WriteFile("out/deep/b.txt", append(b, '!'), 0o644))
		must(os.Rename("out/deep/b.txt", "out/c.txt"))
		entries, err := os.ReadDir("out")
		must(err)
		for _, e := range entries {
			say(e.Name(), " ", strconv.FormatBool(e.IsDir()), "\n")
		}
	case "escape":
		for _, name := range os.Args[2:] {
			b, err := os.ReadFile(name)
			say(name, ": ", strconv.Itoa(len(b)), " bytes, ", strconv.FormatBool(err != nil), "\n")
		}
		say(strconv.FormatBool(os.Symlink("../../../../../../../../../../etc/passwd", "own") != nil), "\n")
		_, err := os.ReadFile("own")
		say(strconv.FormatBool(err != nil), "\n")
	case "open":
		var kept []*os.File
		for range 100_000 {
			f, err := os.Create("f" + strconv.Itoa(len(kept)%10))
			if err != nil {
				say(strconv.FormatBool(len(kept) < 1000))
				return
			}
			kept = append(kept, f)
		}
	case "facts":
		say(strconv.FormatInt(time.Now().UnixNano(), 10), " ", strings.Join(os.Environ(), " "))
	case "sleep":
		time.Sleep(time.Hour)
	}
}

func say(words ...string) { os.Stdout.WriteString(strings.Join(words, "")) }

func must(err error) {
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(66)
	}
}
