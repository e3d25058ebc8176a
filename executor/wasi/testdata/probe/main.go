// Probe is a program for the tests of package wasi: what it does is its first argument.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func main() {
	switch os.Args[1] {
	case "upper":
		b, err := io.ReadAll(os.Stdin)
		must(err)
		fmt.Print(strings.ToUpper(string(b)))
	case "say":
		fmt.Print(strings.Join(os.Args[2:], " "))
		fmt.Fprintf(os.Stderr, "%s %s\n", os.Args[0], os.Getenv("GREETING"))
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
			fmt.Println(e.Name(), e.IsDir())
		}
	case "escape":
		for _, name := range os.Args[2:] {
			b, err := os.ReadFile(name)
			fmt.Printf("%s: %d bytes, %v\n", name, len(b), err != nil)
		}
		fmt.Println(os.Symlink("../../../../../../../../../../etc/passwd", "own") != nil)
		_, err := os.ReadFile("own")
		fmt.Println(err != nil)
	case "open":
		var kept []*os.File
		for range 100_000 {
			f, err := os.Create(fmt.Sprint("f", len(kept)%10))
			if err != nil {
				fmt.Print(len(kept) < 1000)
				return
			}
			kept = append(kept, f)
		}
	case "facts":
		fmt.Print(time.Now().UnixNano(), os.Environ())
	case "sleep":
		time.Sleep(time.Hour)
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(66)
	}
}
