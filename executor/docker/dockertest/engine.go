// Package dockertest starts a Docker engine of the tests' own: in a folder of its own, without networks, with one image in it, the
// program of package executortest. It ends with the tests.
package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/haulier/haulier/executor/executortest"
)

// Image is the name of the image whose entry point plays the steps that are its command.
const Image = "haulier/play:1"

// Engine is a running engine.
type Engine struct {
	Host string // its address
	API  *client.Client
	dir  string
	cmd  *exec.Cmd
	done chan struct{}
	said bytes.Buffer // its log; to be read after done
}

var shared struct {
	once   sync.Once
	engine *Engine
	err    error
}

// Start is the engine that all tests of the process share. Where there can be none the test is skipped; in CI that is a failure. Stop ends it.
func Start(tb testing.TB) *Engine {
	tb.Helper()
	why := ""
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		why = "a Docker engine of the tests' own needs Linux and root"
	} else if _, err := exec.LookPath("dockerd"); err != nil {
		why = "dockerd is not installed; on Debian: apt-get install docker.io"
	}
	if why != "" && os.Getenv("CI") != "" {
		tb.Fatal(why)
	}
	if why != "" {
		tb.Skip(why)
	}
	shared.once.Do(func() { shared.engine, shared.err = start() })
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.engine
}

// Stop ends the shared engine, if there is one, and removes its folder.
func Stop() {
	if e := shared.engine; e != nil {
		e.stop()
	}
}

func start() (*Engine, error) {
	dir, err := os.MkdirTemp("/tmp", "haulier-docker-")
	if err != nil {
		return nil, err
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	e := &Engine{Host: "unix://" + at("d.sock"), dir: dir, done: make(chan struct{})}
	e.cmd = exec.Command("dockerd", "-H", e.Host, "--data-root", at("data"), "--exec-root", at("exec"), "--pidfile", at("pid"),
		"--bridge=none", "--iptables=false", "--ip6tables=false")
	e.cmd.Stdout, e.cmd.Stderr = &e.said, &e.said
	dieWithParent(e.cmd)
	started := make(chan error)
	go func() {
		// Linux ends the child together with the thread that has started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(e.done)
		err := e.cmd.Start()
		started <- err
		if err == nil {
			_ = e.cmd.Wait() // it is ended by a signal
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	if e.API, err = client.New(client.WithHost(e.Host)); err == nil {
		err = e.await()
	}
	if err == nil {
		err = e.makeImage()
	}
	if err != nil {
		e.stop()
		return nil, fmt.Errorf("start dockerd: %w\n%s", err, e.said.Bytes())
	}
	return e, nil
}

// await waits until the engine answers.
func (e *Engine) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := e.API.Ping(ctx, client.PingOptions{}); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-e.done:
			return errors.New("it has ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// makeImage makes an image from scratch: a static program and nothing else.
func (e *Engine) makeImage() error {
	program, err := executortest.Program("", "")
	if err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Dir(program))
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	err = errors.Join(w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o777}),
		w.WriteHeader(&tar.Header{Name: "play", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}))
	if err == nil {
		_, err = w.Write(content)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	res, err := e.API.ImageImport(ctx, client.ImageImportSource{Source: &layer, SourceName: "-"}, Image, client.ImageImportOptions{Changes: []string{`ENTRYPOINT ["/play"]`}})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res)
	return errors.Join(err, res.Close())
}

func (e *Engine) stop() {
	_ = e.cmd.Process.Signal(os.Interrupt) // it may have ended
	select {
	case <-e.done:
	case <-time.After(20 * time.Second):
		_ = e.cmd.Process.Kill()
		<-e.done
	}
	if e.API != nil {
		_ = e.API.Close()
	}
	_ = os.RemoveAll(e.dir) // of the system's temporary files
}

// Left names the containers, volumes and networks that there are beyond those that every engine has.
func (e *Engine) Left(tb testing.TB) []string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	containers, err := e.API.ContainerList(ctx, client.ContainerListOptions{All: true})
	volumes, err2 := e.API.VolumeList(ctx, client.VolumeListOptions{})
	networks, err3 := e.API.NetworkList(ctx, client.NetworkListOptions{})
	if err := errors.Join(err, err2, err3); err != nil {
		tb.Fatal(err)
	}
	var left []string
	for i := range containers.Items {
		left = append(left, "container "+containers.Items[i].ID)
	}
	for i := range volumes.Items {
		left = append(left, "volume "+volumes.Items[i].Name)
	}
	for i := range networks.Items {
		if !slices.Contains([]string{"none", "host", "bridge"}, networks.Items[i].Name) {
			left = append(left, "network "+networks.Items[i].Name)
		}
	}
	return left
}
