// Package play is the language of the conformance suite's jobs: small enough to run wherever a task can.
package play

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Play carries out steps, each of the form NAME or NAME=VALUE, and returns an exit code. An unknown or failing step ends it with 99.
//
//	out=TEXT, err=TEXT    a line to standard output, standard error
//	lines=N               N numbered lines of some 200 bytes to standard output
//	cat, count            standard input, or how long it is, to standard output
//	read=FILE             to standard output
//	write=FILE:TEXT       into the working folder
//	result=TEXT           into the file that HAULIER_RESULT names
//	env=NAME              a variable to standard output
//	await=FILE            until it is there
//	sleep=TIME            for a time
//	deaf                  ignores TERM from here on
//	term                  says so at TERM and ends with 0
//	fill=BYTES            of memory, and holds them
//	exit=N                ends
func Play(steps []string, stdin io.Reader, stdout, stderr io.Writer) int {
	for _, step := range steps {
		name, value, _ := strings.Cut(step, "=")
		if name == "exit" {
			code, err := strconv.Atoi(value)
			if err != nil {
				return 99
			}
			return code
		}
		if err := one(name, value, stdin, stdout, stderr); err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", step, err)
			return 99
		}
	}
	return 0
}

var held [][]byte // by fill, so that nobody takes it back

func one(name, value string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	switch name {
	case "out":
		_, err = fmt.Fprintln(stdout, value)
	case "err":
		_, err = fmt.Fprintln(stderr, value)
	case "lines":
		err = lines(value, stdout)
	case "cat":
		_, err = io.Copy(stdout, stdin)
	case "count":
		var n int64
		if n, err = io.Copy(io.Discard, stdin); err == nil {
			_, err = fmt.Fprintln(stdout, n)
		}
	case "read":
		var b []byte
		if b, err = os.ReadFile(value); err == nil {
			_, err = stdout.Write(b)
		}
	case "write":
		file, text, _ := strings.Cut(value, ":")
		err = os.WriteFile(file, []byte(text), 0o644)
	case "result":
		err = os.WriteFile(os.Getenv("HAULIER_RESULT"), []byte(value), 0o644)
	case "env":
		_, err = fmt.Fprintln(stdout, os.Getenv(value))
	case "await":
		await(func() bool { _, err := os.Stat(value); return err == nil })
	case "sleep":
		var d time.Duration
		if d, err = time.ParseDuration(value); err == nil {
			<-time.After(d)
		}
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	case "term":
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, syscall.SIGTERM)
		go func() { // ends the program
			<-heard
			fmt.Fprintln(stdout, "heard")
			os.Exit(0)
		}()
	case "fill":
		err = fill(value)
	default:
		err = fmt.Errorf("there is no such step")
	}
	return err
}

func lines(value string, stdout io.Writer) error {
	n, err := strconv.Atoi(value)
	for i := 1; err == nil && i <= n; i++ {
		_, err = fmt.Fprintf(stdout, "line %d of output %0200d\n", i, 0)
	}
	return err
}

// await looks for what nobody tells of.
func await(there func() bool) {
	for !there() {
		<-time.After(10 * time.Millisecond)
	}
}

func fill(value string) error {
	n, err := strconv.Atoi(value)
	for ; err == nil && n > 0; n -= 1 << 20 {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		held = append(held, b)
	}
	return err
}
