package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/flow"
	"github.com/haulier/haulier/fileset"
)

// DocInputs is the kind of the document of what a job's inputs turned out to be. Its key is the job's id.
const DocInputs haulier.DocKind = "inputs"

// checkFiles checks a job's inputs and outputs, and leaves out what asks for nothing.
func checkFiles(s *haulier.Spec) error {
	w := s.Files
	if w == nil || len(w.Inputs) == 0 && w.Outputs == nil {
		s.Files = nil
		return nil
	}
	if k := s.Task.Kind(); k != haulier.KindExec && k != haulier.KindContainer && k != haulier.KindWasi {
		return field("inputs", fmt.Sprintf("and outputs are for tasks with a working folder: a task of the kind %s has none", k))
	}
	if x := s.Task.Exec; x != nil && x.Dir != "" {
		return field("task.exec.dir", "can't be given with inputs or outputs: the job gets a folder of its own for them")
	}
	if len(w.Inputs) > haulier.MaxInputs {
		return field("inputs", fmt.Sprintf("are %d: at most %d", len(w.Inputs), haulier.MaxInputs))
	}
	for i := range w.Inputs {
		if err := checkInput(s, &w.Inputs[i], fmt.Sprintf("inputs[%d].", i)); err != nil {
			return err
		}
	}
	o := w.Outputs
	if o == nil {
		return nil
	}
	if err := checkFilesetName("outputs.fileset", o.Fileset); err != nil {
		return err
	}
	if o.Keep < 0 {
		return field("outputs.keep", "is below 0")
	}
	if o.On != "" && o.On != haulier.OnSucceeded && o.On != haulier.OnFailed && o.On != haulier.OnFinished {
		return field("outputs.on", fmt.Sprintf("%.20q is none of succeeded, failed, finished", o.On))
	}
	return checkPatterns("outputs.patterns", o.Patterns)
}

func checkInput(s *haulier.Spec, in *haulier.Input, at string) error {
	switch {
	case in.Fileset != "" && in.From != "":
		return field(at+"from", "can't be given with fileset: name the one or the other")
	case in.From != "":
		if !needsRef(s, in.From) {
			return field(at+"from", fmt.Sprintf("%.40q is no job that this one needs: add it to needs, with this ref", in.From))
		}
	default:
		name, _, err := haulier.ParseFilesetRef(in.Fileset)
		if err == nil {
			err = checkFilesetName(at+"fileset", name)
		}
		if err != nil {
			return err
		}
	}
	if in.To != "" && (!filepath.IsLocal(in.To) || len(in.To) > maxTo) {
		return field(at+"to", fmt.Sprintf("%.80q is no folder within the job's: write such as data/in", in.To))
	}
	return checkPatterns(at+"patterns", in.Patterns)
}

const maxTo = 1024 // bytes of a folder within the job's

func needsRef(s *haulier.Spec, ref string) bool {
	if s.Flow == nil {
		return false
	}
	for i := range s.Needs {
		if s.Needs[i].Ref == ref {
			return true
		}
	}
	return false
}

func checkPatterns(name string, patterns []string) error {
	if err := fileset.Patterns(patterns).Check(); err != nil {
		return &haulier.FieldError{Field: name, Msg: err.Error()}
	}
	return nil
}

// JobFiles implements haulier.Consumer. What the first attempt gets, later ones get too.
func (e *Engine) JobFiles(ctx context.Context, session haulier.ID, ref haulier.Ref) (haulier.JobFiles, error) {
	var out haulier.JobFiles
	jobs, err := e.store.Jobs(ctx, []haulier.ID{ref.Job})
	if err != nil {
		return out, fmt.Errorf("files of %v: %w", ref.Job, err)
	}
	j := jobs[0]
	if j == nil || j.Session != session || j.Attempt != ref.Attempt {
		return out, fmt.Errorf("files of %v: %w: attempt %d is not the session's", ref.Job, haulier.ErrLeaseLost, ref.Attempt)
	}
	out.Tenant = j.Tenant
	if j.Files == nil {
		return out, nil
	}
	out.Outputs = j.Outputs
	if len(j.Inputs) > 0 {
		out.Inputs, err = e.inputs(ctx, j)
	}
	return out, err
}

// inputs settles the versions of a job's inputs, and holds them for it.
func (e *Engine) inputs(ctx context.Context, j *haulier.Job) ([]haulier.FileInput, error) {
	for range filingTries {
		d, err := e.store.Doc(ctx, DocInputs, j.ID.String())
		if err == nil {
			var settled []haulier.FileInput
			if err := json.Unmarshal(d.Value, &settled); err != nil {
				return nil, fmt.Errorf("inputs of %v: %w: %w", j.ID, haulier.ErrCorrupt, err)
			}
			return settled, nil
		}
		if !errors.Is(err, haulier.ErrNotFound) {
			return nil, fmt.Errorf("inputs of %v: %w", j.ID, err)
		}
		settled, err := e.settleInputs(ctx, j)
		if err != nil {
			return nil, err
		}
		puts := &keeping{e: e}
		for _, in := range settled {
			puts.manifest(j.Tenant, in.Manifest, j.ID.String())
		}
		v, err := json.Marshal(settled)
		if err != nil {
			return nil, err
		}
		docs, err := puts.writes(ctx, nil)
		if err == nil {
			err = e.store.Commit(ctx, &haulier.Batch{Docs: append(docs, haulier.DocWrite{Kind: DocInputs, Key: j.ID.String(), Value: v}), Sync: true})
		}
		if !errors.Is(err, haulier.ErrConflict) {
			return settled, err
		}
	}
	return nil, fmt.Errorf("inputs of %v: %w: others keep changing them", j.ID, haulier.ErrUnavailable)
}

func (e *Engine) settleInputs(ctx context.Context, j *haulier.Job) ([]haulier.FileInput, error) {
	var results []haulier.NeedResult
	out := make([]haulier.FileInput, len(j.Inputs))
	for i := range j.Inputs {
		in := &j.Inputs[i]
		of := in.Fileset
		if in.From != "" {
			if results == nil {
				var err error
				if results, err = flow.Results(ctx, e.store, j); err != nil {
					return nil, err
				}
			}
			if of = outputOf(results, in.From); of == "" {
				return nil, fmt.Errorf("inputs[%d]: %w: job %s left no output", i, haulier.ErrNotFound, in.From)
			}
		}
		name, version, err := haulier.ParseFilesetRef(of)
		if err != nil {
			return nil, err
		}
		fs, err := e.Fileset(ctx, j.Tenant, name, version)
		if err != nil {
			return nil, fmt.Errorf("inputs[%d]: %w", i, err)
		}
		out[i] = haulier.FileInput{Fileset: fs.String(), Manifest: fs.Manifest, Patterns: in.Patterns, To: in.To}
	}
	return out, nil
}

func outputOf(results []haulier.NeedResult, ref string) string {
	for i := range results {
		if results[i].Ref == ref {
			return results[i].Output
		}
	}
	return ""
}

// dropInputs removes what was settled of a job's inputs, and returns the addresses of the manifests that it held.
func (e *Engine) dropInputs(ctx context.Context, b *haulier.Batch, job haulier.ID) ([]string, error) {
	d, err := e.store.Doc(ctx, DocInputs, job.String())
	if errors.Is(err, haulier.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var settled []haulier.FileInput
	if err := json.Unmarshal(d.Value, &settled); err != nil {
		return nil, fmt.Errorf("inputs of %v: %w: %w", job, haulier.ErrCorrupt, err)
	}
	b.Docs = append(b.Docs, haulier.DocWrite{Kind: DocInputs, Key: job.String(), Expect: d.Rev})
	held := make([]string, len(settled))
	for i := range settled {
		held[i] = settled[i].Manifest
	}
	return held, nil
}
