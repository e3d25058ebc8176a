package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/fileset"
)

func (p *program) filesetsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "filesets", Short: "Keep folders for jobs, and get what jobs made", Aliases: []string{"fileset"}, Args: cobra.NoArgs,
		Long: `Keep folders as numbered versions of named filesets. Jobs find them in their working folder
(--input) and leave others (--save). What is there already is not sent again.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.filesetsPushCommand(), p.filesetsPullCommand(), p.filesetsListCommand(), p.filesetsFilesCommand(), p.filesetsDiffCommand(), p.filesetsRemoveCommand())
	return cmd
}

// filesetFlags say which files.
type filesetFlags struct {
	patterns []string
	parallel int
}

func (f *filesetFlags) register(cmd *cobra.Command, what string) {
	cmd.Flags().StringArrayVar(&f.patterns, "pattern", nil, "`GLOB` of the files to "+what+", such as '**/*.dat'; with ! in front, of those to leave out; may be repeated")
	cmd.Flags().IntVar(&f.parallel, "parallel", 8, "`N` files on their way at once")
}

// options are those of a push or pull whose progress is shown until the function is called.
func (f *filesetFlags) options(p *program, verb string) (fileset.Options, func()) {
	var moved atomic.Int64
	end := p.showBytes(verb, &moved)
	return fileset.Options{Patterns: f.patterns, Parallel: f.parallel, Progress: func(n int64) { moved.Add(n) }}, end
}

// showBytes says now and then how much was moved, until the function is called: in one line of a terminal, or in one every few seconds elsewhere.
func (p *program) showBytes(verb string, moved *atomic.Int64) (end func()) {
	f, ok := p.errs.(*os.File)
	line := ok && term.IsTerminal(int(f.Fd())) && p.env("TERM") != "dumb"
	every, form := lineEvery, "%s %s\n"
	if line {
		every, form = barEvery, "\r%s %s\x1b[K"
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(p.errs, form, verb, size(moved.Load()))
			case <-done:
				if line {
					fmt.Fprint(p.errs, "\r\x1b[K")
				}
				return
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

func (p *program) filesetsPushCommand() *cobra.Command {
	var f filesetFlags
	keep := 0
	cmd := &cobra.Command{
		Use: "push DIR NAME", Short: "Make the next version of a fileset from a folder", Args: cobra.ExactArgs(2),
		Example: `  haulier filesets push ./data samples --pattern '**/*.dat' --pattern '!tmp/**'`,
	}
	f.register(cmd, "push")
	cmd.Flags().IntVar(&keep, "keep", 0, "`N` versions that stay, the newest first; all unless said")
	cmd.RunE = p.asking(patient, func(ctx context.Context, q haulier.Queue, args []string) error {
		o, end := f.options(p, "pushed")
		pushed, err := fileset.Push(ctx, q, p.settings.Tenant, args[0], o)
		end()
		if err != nil {
			return err
		}
		fs, err := q.AddFileset(ctx, haulier.FilesetRequest{Tenant: p.settings.Tenant, Name: args[1], Manifest: pushed.Manifest, Keep: keep})
		if err != nil {
			return err
		}
		if p.settings.json() {
			return p.printJSON(fs)
		}
		fmt.Fprintln(p.out, fs.String())
		p.say("%d files of %s, of which %s were not there before.", pushed.Files, size(pushed.Size), size(pushed.Sent))
		for _, name := range pushed.Skipped {
			p.say("Left out: %s is neither file nor folder nor link.", name)
		}
		return nil
	})
	return cmd
}

func (p *program) filesetsPullCommand() *cobra.Command {
	var f filesetFlags
	cmd := &cobra.Command{
		Use: "pull NAME[@VERSION] [DIR]", Short: "Put a fileset into a folder; one of its name unless said", Args: cobra.RangeArgs(1, 2),
		Long: `Put a fileset into a folder. Files that are there with the same content stay, others of
the same name are replaced, and further ones are left alone.`,
		Example: `  haulier filesets pull samples@3 ./data --pattern 'in/**'`,
	}
	f.register(cmd, "pull")
	cmd.RunE = p.asking(patient, func(ctx context.Context, q haulier.Queue, args []string) error {
		fs, err := p.filesetOf(ctx, q, args[0])
		if err != nil {
			return err
		}
		dir := fs.Name
		if len(args) > 1 {
			dir = args[1]
		}
		o, end := f.options(p, "pulled")
		pulled, err := fileset.Pull(ctx, q, fs.Tenant, fs.Manifest, dir, o)
		end()
		if err != nil {
			return err
		}
		p.say("%s: %d files of %s in %s, of which %s were fetched.", fs.String(), pulled.Files, size(pulled.Size), dir, size(pulled.Fetched))
		return nil
	})
	return cmd
}

// filesetOf looks up name or name@version.
func (p *program) filesetOf(ctx context.Context, q haulier.Queue, arg string) (haulier.Fileset, error) {
	name, version, err := haulier.ParseFilesetRef(arg)
	if err != nil {
		return haulier.Fileset{}, err
	}
	fs, err := q.Fileset(ctx, p.settings.Tenant, name, version)
	if errors.Is(err, haulier.ErrNotFound) {
		return fs, fmt.Errorf("%w: `haulier filesets list` shows what there is", err)
	}
	return fs, err
}

func (p *program) filesetsListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list [NAME]", Short: "List filesets, or the versions of one", Aliases: []string{"ls"}, Args: cobra.MaximumNArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			all, err := listFilesets(ctx, q, p.settings.Tenant, strings.Join(args, ""))
			if err != nil {
				return err
			}
			if p.settings.json() {
				return p.printJSON(map[string]any{"filesets": all})
			}
			if len(all) == 0 {
				p.say("No filesets: `haulier filesets push` makes them, and jobs with --save.")
				return nil
			}
			now := time.Now()
			t := newTable("FILESET", "FILES", "SIZE", "MADE", "BY", "JOB").numbers(1, 2)
			for i := range all {
				job := ""
				if !all[i].Job.IsNil() {
					job = all[i].Job.String()
				}
				t.add(all[i].String(), all[i].Files, size(all[i].Size), ago(all[i].CreatedAt, now), all[i].By, job)
			}
			t.write(p.out)
			return nil
		}),
	}
}

func listFilesets(ctx context.Context, q haulier.Queue, tenant, name string) ([]haulier.Fileset, error) {
	all := []haulier.Fileset{}
	for after := ""; ; {
		some, err := q.Filesets(ctx, tenant, name, after, 1000)
		all = append(all, some...)
		if err != nil || len(some) < 1000 {
			return all, err
		}
		if after = some[len(some)-1].Name; name != "" {
			after = some[len(some)-1].String()
		}
	}
}

func (p *program) filesetsFilesCommand() *cobra.Command {
	var patterns []string
	cmd := &cobra.Command{Use: "files NAME[@VERSION]", Short: "List the files of a fileset", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringArrayVar(&patterns, "pattern", nil, "`GLOB` of the files to list; may be repeated")
	cmd.RunE = p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
		fs, err := p.filesetOf(ctx, q, args[0])
		if err != nil {
			return err
		}
		entries, err := fileset.List(ctx, q, fs.Tenant, fs.Manifest, patterns)
		if err != nil {
			return err
		}
		if p.settings.json() {
			if entries == nil {
				entries = []fileset.Entry{}
			}
			return p.printJSON(map[string]any{"fileset": fs, "files": entries})
		}
		t := newTable("MODE", "SIZE", "PATH").numbers(1)
		for i := range entries {
			switch e := &entries[i]; {
			case e.Link != "":
				t.add("link", "", e.Path+" -> "+e.Link)
			case e.Dir:
				t.add(fmt.Sprintf("%o", e.Mode), "", e.Path+"/")
			default:
				t.add(fmt.Sprintf("%o", e.Mode), size(e.Size), e.Path)
			}
		}
		t.write(p.out)
		return nil
	})
	return cmd
}

func (p *program) filesetsDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use: "diff NAME[@VERSION] NAME[@VERSION]", Short: "Show which files are new (+), gone (-) and changed (~)", Args: cobra.ExactArgs(2),
		Example: `  haulier filesets diff samples@3 samples`,
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			var sides [2]map[string]fileset.Entry
			for i, arg := range args {
				fs, err := p.filesetOf(ctx, q, arg)
				if err != nil {
					return err
				}
				entries, err := fileset.List(ctx, q, fs.Tenant, fs.Manifest, nil)
				if err != nil {
					return err
				}
				sides[i] = map[string]fileset.Entry{}
				for _, e := range entries {
					sides[i][e.Path] = e
				}
			}
			paths := map[string]bool{}
			for _, s := range sides {
				for path := range s {
					paths[path] = true
				}
			}
			for _, path := range slices.Sorted(maps.Keys(paths)) {
				old, was := sides[0][path]
				now, is := sides[1][path]
				switch {
				case !was:
					fmt.Fprintln(p.out, "+", path)
				case !is:
					fmt.Fprintln(p.out, "-", path)
				case old != now:
					fmt.Fprintln(p.out, "~", path)
				}
			}
			return nil
		}),
	}
}

func (p *program) filesetsRemoveCommand() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use: "rm NAME@VERSION", Short: "Remove a version of a fileset, or with --all every one", Args: cobra.ExactArgs(1),
		Long: `Remove a version of a fileset, or with --all every one. Jobs that have been given it keep
its files as long as they are kept themselves.`,
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove all versions of NAME")
	cmd.RunE = p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
		name, version, err := haulier.ParseFilesetRef(args[0])
		switch {
		case err != nil:
			return err
		case version == 0 && !all:
			return usagef("name the version, as in %s@3, or give --all", name)
		case version != 0 && all:
			return usagef("--all goes with the name alone")
		}
		if err := q.DeleteFileset(ctx, p.settings.Tenant, name, version); err != nil {
			return err
		}
		p.say("%s is removed.", args[0])
		return nil
	})
	return cmd
}
