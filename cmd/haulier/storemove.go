package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/store/transfer"
)

const copyLong = `Copy all that is in a store to another one, which must be empty.

Stop all servers of both before; the command refuses when it notices one. What is interrupted goes on when the
same command is given again; until it is complete, no server starts over the target. At the end both stores are
read once more, and compared by count and checksum.

Blobs (payloads over 64 KiB, output, filesets) are not in the store, and stay where they are: servers over the
copy need the same folder of blobs (--blobs), which is "blobs" in the --data folder unless said.`

func (p *program) storeCopyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "copy FROM TO", Short: "Copy all that is in a store to another one", Long: copyLong, Args: cobra.ExactArgs(2),
		Example: `  haulier store copy pebble:/var/lib/haulier/store postgres://haulier:secret@db.example.com/haulier`,
		RunE: p.plain(func(ctx context.Context, args []string) error {
			return p.atRest(ctx, args[0], func(from haulier.Store) error {
				return p.atRest(ctx, args[1], func(to haulier.Store) error {
					if from.Opened().ClaimsLost {
						p.say("haulier: the machine went down before the source was closed. Better let a server run over it for some minutes first: then workers that still run can say what they have.")
					}
					r, err := transfer.Copy(ctx, from, to, p.transferring(storeName(args[0])))
					if err == nil {
						err = stillAtRest(ctx, from)
					}
					return p.transferred(err, "Copied", r)
				})
			})
		}),
	}
}

const exportLong = `Write all that is in a store to a file, as JSON lines: a header, each document, each job, and an end with their
numbers and checksum, by which a file that was cut is noticed.

Stop all servers of the store before. Blobs are not in the store, and not in the file. It does have the digests of
tokens and the secrets of hooks in it: keep it from others.`

func (p *program) storeExportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export STORE FILE", Short: "Write a store to a file, or with - to standard output, as JSON lines", Long: exportLong, Args: cobra.ExactArgs(2),
		Example: `  haulier store export pebble:/var/lib/haulier/store haulier.jsonl`,
		RunE: p.plain(func(ctx context.Context, args []string) error {
			return p.atRest(ctx, args[0], func(from haulier.Store) error {
				var sum transfer.Sum
				err := p.writing(args[1], func(w io.Writer) (err error) {
					sum, err = transfer.Export(ctx, from, w, p.transferring(""))
					if err == nil {
						err = stillAtRest(ctx, from)
					}
					return err
				})
				if err == nil && args[1] == "-" {
					p.say("Exported %d jobs and %d documents.", sum.Jobs, sum.Documents())
					return nil
				}
				return p.transferred(err, "Exported", transfer.Result{Sum: sum})
			})
		}),
	}
}

const importLong = `Write what "haulier store export" has written into a store, which must be empty.

Stop all servers of the store before. An import that was interrupted goes on when the same command is given again;
until it is complete, no server starts over the store.`

func (p *program) storeImportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "import FILE STORE", Short: "Write an exported file, or with - standard input, into an empty store", Long: importLong, Args: cobra.ExactArgs(2),
		Example: `  haulier store import haulier.jsonl redis://cache.example.com/0`,
		RunE: p.plain(func(ctx context.Context, args []string) error {
			in := p.in
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			return p.atRest(ctx, args[1], func(to haulier.Store) error {
				r, err := transfer.Import(ctx, in, to, p.transferring(""))
				return p.transferred(err, "Imported", r)
			})
		}),
	}
}

// atRest opens a store over which no server works, and closes it afterwards.
func (p *program) atRest(ctx context.Context, url string, do func(haulier.Store) error) error {
	log, err := (&logFlags{Format: "text", Level: "warn"}).logger(p.errs)
	if err != nil {
		return err
	}
	s, err := openStore(ctx, url, storeOptions{Durability: durabilities[0], Log: log})
	if err != nil {
		return fmt.Errorf("%s: %w", schemeOf(url), err)
	}
	if err = engine.AtRest(ctx, s); err == nil {
		err = do(s)
	} else {
		err = fmt.Errorf("%s: %w", schemeOf(url), err)
	}
	return errors.Join(err, s.Close())
}

// stillAtRest looks for a server that was started while a store was read: what it did may be in what was read, or not.
func stillAtRest(ctx context.Context, from haulier.Store) error {
	if err := engine.AtRest(ctx, from); err != nil {
		return fmt.Errorf("the source, in the end: %w; begin again with an empty target", err)
	}
	return nil
}

// schemeOf is the part of a store's URL that can be shown: the rest may have a password in it.
func schemeOf(url string) string {
	scheme, _, _ := strings.Cut(url, ":")
	return "store in " + scheme
}

// storeName is a store's URL in the form by which it is known again.
func storeName(url string) string {
	if dir, ok := strings.CutPrefix(url, "pebble:"); ok {
		if abs, err := filepath.Abs(dir); err == nil {
			return "pebble:" + abs
		}
	}
	return url
}

// transferring are the options of moving a store: progress goes to standard error, once a second.
func (p *program) transferring(source string) transfer.Options {
	last := time.Now()
	return transfer.Options{Kinds: engine.DocKinds, Source: source, Progress: func(now transfer.Progress) {
		if time.Since(last) < time.Second {
			return
		}
		last = time.Now()
		switch {
		case now.Verifying:
			p.say("verified: %d jobs, %d documents", now.Jobs, now.Docs)
		case now.Of > 0:
			p.say("written: %d documents, %d of %d jobs", now.Docs, now.Jobs, now.Of)
		default:
			p.say("written: %d documents, %d jobs", now.Docs, now.Jobs)
		}
	}}
}

// transferred tells what was moved.
func (p *program) transferred(err error, how string, r transfer.Result) error {
	switch {
	case err != nil:
		return err
	case p.settings.json():
		return p.printJSON(r)
	}
	if r.Resumed {
		how += ", going on with what an earlier command had begun,"
	}
	_, err = fmt.Fprintf(p.out, "%s %d jobs and %d documents; their checksum is %s.\n", how, r.Jobs, r.Documents(), r.Checksum)
	return err
}

// writing makes a file, which is there only when all was written; - is standard output.
func (p *program) writing(name string, do func(io.Writer) error) error {
	if name == "-" {
		return do(p.out)
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".haulier-export-*") // for its owner alone
	if err != nil {
		return err
	}
	err = do(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
