package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// TestHelp compares the help of the main commands with golden files. After a change: go test ./cmd/haulier -run TestHelp -update
func TestHelp(t *testing.T) {
	for _, name := range []string{"", "run", "map", "enqueue", "jobs", "jobs cancel"} {
		t.Run(name, func(t *testing.T) {
			r := do(t, home(t), nil, append(strings.Fields(name), "--help")...)
			file := filepath.Join("testdata", "help"+strings.ReplaceAll(" "+name, " ", "-")+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(r.out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if r.out != string(want) || r.code != 0 {
				t.Errorf("code %d; it is now:\n%s", r.code, r.out)
			}
		})
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	p := &program{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" {
			t.Errorf("%s says nothing of itself", c.CommandPath())
		}
		for line := range strings.Lines(c.Long + "\n" + c.Example) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 118 {
				t.Errorf("%s has a line of %d characters: %s", c.CommandPath(), n, line)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(p.root())
}

func TestVersion(t *testing.T) {
	do(t, home(t), nil, "version").expect(t, 0, "haulier v0-test (go")
	do(t, home(t), nil, "version", "-o", "json").expect(t, 0, `"version": "v0-test"`)
	do(t, home(t), nil, "--version").expect(t, 0, "haulier v0-test\n")
	do(t, home(t), nil, "completion", "bash").expect(t, 0, "bash completion")
}

func TestCompletion(t *testing.T) {
	do(t, home(t), nil, "__complete", "jobs", "list", "--state", "").expect(t, 0, "pending", "collapsed")
	do(t, home(t), nil, "__complete", "token", "create", "--role", "").expect(t, 0, "producer")
	do(t, home(t), nil, "__complete", "que").expect(t, 0, "queues")
}
