package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/haulier/haulier"
)

// containerFlags make a job a container.
type containerFlags struct {
	image, config, pull, login string
}

func (f *containerFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.image, "container", "", "`IMAGE` of a container that the job runs in; for workers that run container tasks")
	fs.StringVar(&f.config, "container-config", "", "`FILE` with more of that container: JSON as in Docker's API call that creates one, such as {\"HostConfig\": {\"Memory\": 67108864}}")
	fs.StringVar(&f.pull, "pull", "", "`WHEN` the worker fetches the image: missing, always or never; missing unless said")
	fs.StringVar(&f.login, "registry-login", "", "`NAME` of the login in the worker's policy file with which it fetches the image")
}

// asked reports whether the job is a container.
func (f *containerFlags) asked() bool { return f.image != "" || f.config != "" }

// containerRun is what the other flags and arguments say of a container.
type containerRun struct {
	cmd, env []string
	dir      string
	grace    time.Duration
}

// task is nil when no container is asked for.
func (f *containerFlags) task(run containerRun) (*haulier.ContainerTask, error) {
	if !f.asked() {
		if f.pull+f.login != "" {
			return nil, usagef("--pull and --registry-login go with --container: name the image")
		}
		return nil, nil
	}
	config := map[string]any{}
	if f.config != "" {
		b, err := os.ReadFile(f.config)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(b, &config); err != nil || config == nil {
			return nil, usagef("--container-config: %s is no object of JSON: %v", f.config, err)
		}
	}
	if f.image != "" {
		config["Image"] = f.image
	}
	if len(run.cmd) > 0 {
		config["Cmd"] = run.cmd
	}
	if run.dir != "" {
		config["WorkingDir"] = run.dir
	}
	if len(run.env) > 0 {
		env, _ := config["Env"].([]any)
		for _, v := range run.env {
			env = append(env, v)
		}
		config["Env"] = env
	}
	b, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("container: %w", err)
	}
	return &haulier.ContainerTask{Config: b, Pull: haulier.Pull(f.pull), Auth: f.login, Grace: haulier.Duration(run.grace)}, nil
}

// containerLine is a container in short: its image and command.
func containerLine(t *haulier.ContainerTask) string {
	var config struct {
		Image string
		Cmd   []string
	}
	_ = json.Unmarshal(t.Config, &config) // the server has checked it, but for Cmd
	return strings.TrimSpace(config.Image + " " + commandLine(config.Cmd))
}

// accountLine is what an attempt used, as far as that is known.
func accountLine(a *haulier.Account) string {
	var parts []string
	add := func(text string, n int64) {
		if n > 0 {
			parts = append(parts, size(n)+" "+text)
		}
	}
	if a.CPU > 0 {
		parts = append(parts, fmt.Sprintf("%v of processors", time.Duration(a.CPU).Round(time.Millisecond)))
	}
	add("of memory", a.MaxMemory)
	add("read", a.Read)
	add("written", a.Written)
	add("received", a.Received)
	add("sent", a.Sent)
	return strings.Join(parts, ", ")
}
