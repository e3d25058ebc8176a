package workflow

import (
	yaml "go.yaml.in/yaml/v4"

	"github.com/haulier/haulier"
)

// checkRendered checks what the job's texts can become, whatever the permutation.
func (r *reader) checkRendered(j *job, n *yaml.Node) {
	m := j.matrix
	if len(m.axes) > 0 {
		shown := len(LabelMatrix)
		for i, a := range m.axes {
			shown += len(a) + len("=,") + m.longest[i]
		}
		if shown > haulier.MaxLabelSize {
			r.fail(n, "the names and values of the matrix of %s come to more than %d bytes: shorten them", j.name, haulier.MaxLabelSize)
		}
	}
	if size := j.taskSize(); size > maxTask {
		r.fail(n, "the task of %s comes to %d bytes with its env: at most %d; put the script into a file, or send data as the payload", j.name, size, maxTask)
	}
	if size := j.payload.size(m); size > haulier.MaxPayload {
		r.fail(n, "the payload of %s comes to %d bytes: at most %d", j.name, size, haulier.MaxPayload)
	}
	for _, l := range j.labels {
		if size := len(l.name) + l.text.size(m); size > haulier.MaxLabelSize {
			r.failAt(l.text.at, "label %.40s comes to %d bytes: at most %d", l.name, size, haulier.MaxLabelSize)
		}
	}
	size := 0
	for _, l := range j.runsOn {
		size += len(l.name) + l.text.size(m) + len("=,")
		r.checkLabel(j, "label "+l.name+" of runs_on", l.text)
	}
	if size > haulier.MaxName {
		r.fail(n, "runs_on of %s comes to %d bytes: at most %d", j.name, size, haulier.MaxName)
	}
	r.checkLabel(j, "type", j.typ)
	r.checkLabel(j, "queue", j.queue)
}

// checkLabel checks a text that becomes the name of a queue or type.
func (r *reader) checkLabel(j *job, what string, t *text) {
	if t == nil {
		return
	}
	if size := t.size(j.matrix); size > haulier.MaxName {
		r.failAt(t.at, "%s comes to %d bytes: at most %d", what, size, haulier.MaxName)
		return
	}
	for _, perm := range j.perms {
		if why := badLabel(t.render(perm)); why != "" {
			r.failAt(t.at, "%s %s", what, why)
			return
		}
		if t.fixed() {
			return
		}
	}
}

// taskSize bounds the bytes of the job's task and environment.
func (j *job) taskSize() int {
	n := 0
	for _, t := range j.task.texts() {
		n += t.size(j.matrix)
	}
	for _, e := range j.env {
		n += len(e.name) + e.text.size(j.matrix)
	}
	if j.task.takesEnv() {
		n += 4 * haulier.MaxName // the variables that every command of a run has
		for i, a := range j.axes {
			n += len(envPrefix) + len(a) + j.longest[i]
		}
	}
	return n
}

// size bounds the bytes of all that is made for one permutation.
func (j *job) size() int {
	n := j.taskSize() + j.payload.size(j.matrix) + 4*MaxName
	for _, l := range j.labels {
		n += len(l.name) + l.text.size(j.matrix)
	}
	return n
}
