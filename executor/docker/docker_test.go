package docker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/executor/docker"
	"github.com/haulier/haulier/executor/docker/dockertest"
	"github.com/haulier/haulier/executor/executortest"
)

// TestMain makes the test program its own watch, and the worker that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "watch" {
		if err := docker.RunWatch(context.Background(), os.Args[3], os.Stdin, slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	executortest.Doomed(func() executor.Executor { return docker.New(config("")) }) // by DOCKER_HOST
	code := m.Run()
	dockertest.Stop()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func config(host string) docker.Config {
	return docker.Config{
		Host: host, Watch: []string{os.Args[0], "watch"},
		Policy: docker.Policy{Images: []string{"haulier/*"}, Network: "none", Memory: 256 << 20},
	}
}

// play is a container that plays steps, with more of a config, as JSON.
func play(more string, steps ...string) haulier.Task {
	config := map[string]any{}
	if more != "" {
		if err := json.Unmarshal([]byte(more), &config); err != nil {
			panic(err)
		}
	}
	config["Cmd"] = steps
	if config["Image"] == nil {
		config["Image"] = dockertest.Image
	}
	b, err := json.Marshal(config)
	if err != nil {
		panic(err)
	}
	return haulier.Task{Container: &haulier.ContainerTask{Config: b}}
}

func TestContract(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	executortest.Run(t, executortest.Setup{
		New:  func(*testing.T) executor.Executor { return docker.New(config(e.Host)) },
		Task: func(steps ...string) haulier.Task { return play("", steps...) },
		Can:  executortest.Features{Output: true, Stdin: true, Folder: true, Signals: true, Adopted: true, Command: true},
		Left: func(t *testing.T) []string { return e.Left(t) },
	})
}
