package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/haulier/haulier"
)

// copyIn puts the attempt's files into the container, which has not started: everybody in there may write the folder of the job's
// files, when it is the executor's, and the file of the result.
func (a *attempt) copyIn(ctx context.Context) error {
	now := time.Now()
	skeleton := tarOf(func(w *tar.Writer) error {
		if a.files == filesPath {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: path.Base(filesPath) + "/", Mode: 0o777, ModTime: now}); err != nil {
				return err
			}
		}
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Base(resultPath), Mode: 0o666, ModTime: now})
	})
	if err := a.copyTo(ctx, mountPoint, skeleton); err != nil {
		return err
	}
	if a.files == "" {
		return nil
	}
	return a.copyTo(ctx, a.files, tarOf(func(w *tar.Writer) error { return addFolder(w, a.Folder()) }))
}

func (a *attempt) copyTo(ctx context.Context, to string, content io.ReadCloser) error {
	defer content.Close() // ends the writer, also when the engine has not read all
	_, err := a.x.cli.CopyToContainer(ctx, a.id, client.CopyToContainerOptions{DestinationPath: to, Content: content})
	return err
}

// tarOf is an archive that is made while it is read. Its writer ends when it is closed.
func tarOf(fill func(*tar.Writer) error) io.ReadCloser {
	r, w := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		archive := tar.NewWriter(w)
		err := fill(archive)
		if err == nil {
			err = archive.Close()
		}
		w.CloseWithError(err)
	}()
	return &archiveReader{r, ended}
}

type archiveReader struct {
	*io.PipeReader
	ended chan struct{}
}

func (r *archiveReader) Close() error {
	err := r.PipeReader.Close()
	<-r.ended
	return err
}

// addFolder writes what is in a folder: files, folders and links, which are not followed.
func addFolder(w *tar.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = root.Readlink(name); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		h.Name, h.Uid, h.Gid, h.Uname, h.Gname = name, 0, 0, "", ""
		if info.IsDir() {
			h.Name += "/"
		}
		if err := w.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	})
}

// copyOut puts what is in the container's folder of files in the place of the attempt's.
func (a *attempt) copyOut(ctx context.Context) error {
	if err := os.RemoveAll(a.Folder()); err != nil {
		return err
	}
	if err := os.Mkdir(a.Folder(), 0o700); err != nil {
		return err
	}
	res, err := a.x.cli.CopyFromContainer(ctx, a.id, client.CopyFromContainerOptions{SourcePath: a.files + "/."})
	if err != nil {
		return err
	}
	defer res.Content.Close()
	return extract(res.Content, a.Folder())
}

// extract unpacks an archive of somebody not trusted into a folder: nothing gets outside of it, neither by a name nor through a link.
// Pipes, devices and names that no path within can have are left out.
func extract(in io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	r := tar.NewReader(in)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "/"))
		if name == "." || !filepath.IsLocal(name) {
			continue
		}
		if err := extractOne(root, name, h, r); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

func extractOne(root *os.Root, name string, h *tar.Header, content io.Reader) error {
	mode := h.FileInfo().Mode().Perm()
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, mode|0o700) // so that it can be filled, and removed
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		target := path.Clean(strings.TrimPrefix(h.Linkname, "/"))
		if !filepath.IsLocal(target) {
			return nil
		}
		return root.Link(target, name)
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Close())
	}
	return nil
}

// resultOf reads what the container left as its result: the file, or else its last line.
func (a *attempt) resultOf(ctx context.Context) []byte {
	if b := a.resultFile(ctx); len(b) > 0 {
		return b
	}
	return a.lastLine(ctx, haulier.MaxResult)
}

func (a *attempt) resultFile(ctx context.Context) []byte {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	res, err := a.x.cli.CopyFromContainer(ctx, a.id, client.CopyFromContainerOptions{SourcePath: resultPath})
	if err != nil {
		return nil
	}
	defer res.Content.Close()
	r := tar.NewReader(res.Content)
	if h, err := r.Next(); err != nil || h.Typeflag != tar.TypeReg {
		return nil
	}
	var b bytes.Buffer
	_, _ = io.Copy(&b, io.LimitReader(r, haulier.MaxResult)) // of what is not whole, that much
	return b.Bytes()
}
