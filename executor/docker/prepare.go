package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

// Within a container.
const (
	mountPoint = "/haulier"        // a volume of the container's own
	filesPath  = "/haulier/work"   // working folder of a job with files that names none
	resultPath = "/haulier/result" // $HAULIER_RESULT
)

// DefaultGrace is the time from TERM to KILL of a task that does not say.
const DefaultGrace = 10 * time.Second

// maxLog is the size of the engine's own log of a container, from which output is read again after a worker's restart.
const maxLog = "64m"

// Prepare implements executor.Executor. The attempt gets a folder
//
//	containers/JOB.ATTEMPT/work       inputs, later outputs
//	                      /position   how much of the output the server has
//	                      /fed        the standard input was written to its end
func (x *Executor) Prepare(ctx context.Context, job *haulier.Job, payload []byte) (executor.Attempt, error) {
	a := x.newAttempt(haulier.Ref{Job: job.ID, Attempt: job.Attempt})
	task := job.Task.Container
	if task == nil {
		return a.refuse("the task has no container"), nil
	}
	req, why := decode(task.Config)
	if why == "" {
		why = x.cfg.Policy.check(req)
	}
	if why != "" {
		return a.refuse(why), nil
	}
	a.payload, a.timeout, a.grace = payload, max(time.Duration(job.Timeout), 0), time.Duration(task.Grace)
	if a.grace <= 0 {
		a.grace = DefaultGrace
	}
	if job.Files != nil && (len(job.Inputs) > 0 || job.Outputs != nil) {
		a.files = filesPath
		if req.WorkingDir != "" {
			a.files = req.WorkingDir
		}
	}
	if why, err := x.pull(ctx, task, req.Image); why != "" || err != nil {
		return a.refuse(why), err
	}
	x.complete(req, a, job)
	if err := os.MkdirAll(filepath.Join(a.folder, workFolder), 0o700); err != nil {
		return nil, fmt.Errorf("folder of the job: %w", err)
	}
	if err := x.create(ctx, a, req); err != nil {
		err = errors.Join(err, os.RemoveAll(a.folder))
		if lasting(err) {
			return a.refuse("not created: " + err.Error()), nil
		}
		return nil, fmt.Errorf("create container: %w", err)
	}
	x.mu.Lock()
	x.attempts[a.ref] = a
	x.mu.Unlock()
	return a, nil
}

// decode reads a create config as strictly as what is not understood must not get past the policy.
func decode(config []byte) (req *container.CreateRequest, why string) {
	d := json.NewDecoder(bytes.NewReader(config))
	d.DisallowUnknownFields()
	if err := d.Decode(&req); err != nil || req == nil {
		return nil, fmt.Sprintf("the container's config: %v", err)
	}
	if req.Config == nil {
		req.Config = &container.Config{}
	}
	if req.HostConfig == nil {
		req.HostConfig = &container.HostConfig{}
	}
	return req, ""
}

// complete adds what is the executor's business to a config that the policy allows.
func (x *Executor) complete(req *container.CreateRequest, a *attempt, job *haulier.Job) {
	c, h := req.Config, req.HostConfig
	if a.files == filesPath {
		c.WorkingDir = filesPath
	}
	stdin := len(a.payload) > 0
	c.OpenStdin, c.StdinOnce, c.AttachStdin = stdin, stdin, stdin
	c.Volumes = maps.Clone(c.Volumes)
	if c.Volumes == nil {
		c.Volumes = map[string]struct{}{}
	}
	c.Volumes[mountPoint] = struct{}{}
	c.Env = append(append([]string{}, c.Env...), executor.Variables(job)...)
	c.Env = append(c.Env, "HAULIER_RESULT="+resultPath)
	labels := maps.Clone(c.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelOwner], labels[labelJob], labels[labelAttempt] = x.owner, a.ref.Job.String(), strconv.Itoa(a.ref.Attempt)
	labels[labelGrace] = a.grace.String()
	if a.timeout > 0 {
		labels[labelTimeout] = a.timeout.String()
	}
	if a.files != "" {
		labels[labelFiles] = a.files
	}
	if stdin {
		labels[labelStdin] = "1"
	}
	c.Labels = labels
	h.LogConfig = container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": maxLog}}
	if h.NetworkMode == "" {
		h.NetworkMode = container.NetworkMode(x.cfg.Policy.Network)
	}
}

func (x *Executor) create(ctx context.Context, a *attempt, req *container.CreateRequest) error {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	made, err := x.cli.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: req.Config, HostConfig: req.HostConfig, NetworkingConfig: req.NetworkingConfig,
		Name: fmt.Sprintf("haulier-%v-%d", a.ref.Job, a.ref.Attempt),
	})
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.id = made.ID
	a.mu.Unlock()
	return nil
}

// pull sees to it that the engine has the image. why: it never will.
func (x *Executor) pull(ctx context.Context, task *haulier.ContainerTask, image string) (why string, err error) {
	if task.Pull != haulier.PullAlways {
		_, err := x.cli.ImageInspect(ctx, image)
		switch {
		case err == nil:
			return "", nil
		case !missing(err):
			return "", fmt.Errorf("image %s: %w", image, err)
		case task.Pull == haulier.PullNever:
			return fmt.Sprintf("the engine does not have the image %s, and the job says that it is not to be fetched", image), nil
		}
	}
	auth, why := x.cfg.Policy.login(task.Auth)
	if why != "" {
		return why, nil
	}
	res, err := x.cli.ImagePull(ctx, image, client.ImagePullOptions{RegistryAuth: auth})
	if err == nil {
		err = errors.Join(res.Wait(ctx), res.Close())
	}
	switch {
	case err == nil:
		return "", nil
	case lasting(err), strings.Contains(err.Error(), "manifest unknown"):
		return fmt.Sprintf("image %s can't be fetched: %v", image, err), nil
	}
	return "", fmt.Errorf("fetch image %s: %w", image, err)
}

// lasting reports whether the engine would say the same to another attempt.
func lasting(err error) bool {
	return errdefs.IsInvalidArgument(err) || errdefs.IsNotFound(err) || errdefs.IsPermissionDenied(err) || errdefs.IsUnauthorized(err)
}

func missing(err error) bool { return errdefs.IsNotFound(err) }

// inRemoval tells that somebody else removes the container just now.
func inRemoval(err error) bool { return errdefs.IsConflict(err) }

// feed writes the payload to the standard input of a container that has started, and notes when all of it is written.
func (a *attempt) feed(in *client.ContainerAttachResult) error {
	defer in.Close()
	if _, err := io.Copy(in.Conn, bytes.NewReader(a.payload)); err != nil {
		return err
	}
	if err := in.CloseWrite(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.folder, fedFile), nil, 0o600)
}
