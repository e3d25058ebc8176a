package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

func (p *program) blobsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "blobs", Short: "Keep single files under their SHA-256", Aliases: []string{"blob"}, Args: cobra.NoArgs,
		Long: `Keep single files under their SHA-256. What no job or fileset refers to is removed a day
after it was last put.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.blobsPutCommand(), p.blobsGetCommand(), p.blobsStatCommand())
	return cmd
}

func (p *program) blobsPutCommand() *cobra.Command {
	return &cobra.Command{
		Use: "put FILE", Short: "Keep a file, or with - standard input, and print its address", Args: cobra.ExactArgs(1),
		RunE: p.asking(patient, func(ctx context.Context, q haulier.Queue, args []string) error {
			f, err := p.seekable(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			sum := sha256.New()
			if _, err := io.Copy(sum, f); err != nil {
				return err
			}
			addr := hex.EncodeToString(sum.Sum(nil))
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return err
			}
			if err := q.PutBlob(ctx, p.settings.Tenant, addr, f); err != nil {
				return err
			}
			fmt.Fprintln(p.out, addr)
			return nil
		}),
	}
}

// seekable opens a file that can be read twice; standard input becomes one.
func (p *program) seekable(name string) (*os.File, error) {
	if name != "-" {
		return os.Open(name)
	}
	f, err := os.CreateTemp("", "haulier-blob-")
	if err != nil {
		return nil, err
	}
	err = os.Remove(f.Name()) // it is gone when it is closed
	if err == nil {
		_, err = io.Copy(f, p.in)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (p *program) blobsGetCommand() *cobra.Command {
	file := ""
	cmd := &cobra.Command{Use: "get ADDRESS", Short: "Write a blob to standard output, or to a file", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&file, "file", "", "`FILE` to write to, which is made only when all of it has come")
	cmd.RunE = p.asking(patient, func(ctx context.Context, q haulier.Queue, args []string) error {
		r, _, err := q.ReadBlob(ctx, p.settings.Tenant, args[0], 0, -1)
		if err != nil {
			return err
		}
		defer r.Close()
		if file == "" {
			_, err = io.Copy(p.out, r)
			return err
		}
		tmp := file + ".part"
		f, err := os.Create(tmp)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		if err2 := f.Close(); err == nil {
			err = err2
		}
		if err == nil {
			err = os.Rename(tmp, file)
		}
		if err != nil {
			return errors.Join(err, os.Remove(tmp))
		}
		return nil
	})
	return cmd
}

func (p *program) blobsStatCommand() *cobra.Command {
	return &cobra.Command{
		Use: "stat ADDRESS", Short: "Tell whether a blob is there, and its size", Args: cobra.ExactArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			r, n, err := q.ReadBlob(ctx, p.settings.Tenant, args[0], 0, 1)
			if err != nil {
				return err
			}
			defer r.Close()
			if p.settings.json() {
				return p.printJSON(map[string]any{"address": args[0], "size": n})
			}
			fmt.Fprintf(p.out, "%s  %s\n", args[0], size(n))
			return nil
		}),
	}
}
