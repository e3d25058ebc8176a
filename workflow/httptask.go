package workflow

import (
	yaml "go.yaml.in/yaml/v4"

	"github.com/haulier/haulier"
)

// httpTask is a call of an address.
type httpTask struct {
	url, method, secret *text
	headers             []named
	lines               bool
	batch               int
}

// http reads a call: an address, or a mapping with url, method, headers and secret.
func (r *reader) http(n *yaml.Node, axes []string) task {
	t := &httpTask{}
	if n.Kind == yaml.ScalarNode {
		t.url = r.text(n, "an address", axes)
		return t
	}
	r.fields(n, "http", map[string]func(*yaml.Node){
		"url":    func(v *yaml.Node) { t.url = r.text(v, "url", axes) },
		"method": func(v *yaml.Node) { t.method = r.text(v, "method", axes) },
		"secret": func(v *yaml.Node) { t.secret = r.text(v, "secret", axes) },
		"lines":  func(v *yaml.Node) { t.lines = r.flag(v, "lines") },
		"batch":  func(v *yaml.Node) { t.batch = r.number(v, "batch", 0, haulier.MaxHTTPBatch) },
		"headers": func(v *yaml.Node) {
			for _, p := range r.pairs(v, "headers") {
				if x := r.text(p.value, "header "+p.key, axes); x != nil {
					t.headers = append(t.headers, named{p.key, x})
				}
			}
		},
	})
	if t.url == nil {
		r.fail(n, "http has no url: name the address to call")
	}
	return t
}

func (t *httpTask) render(values []string, _ map[string]string) haulier.Task {
	x := &haulier.HTTPTask{URL: t.url.render(values), Method: t.method.render(values), Secret: t.secret.render(values), Lines: t.lines, Batch: t.batch}
	for _, h := range t.headers {
		if x.Headers == nil {
			x.Headers = map[string]string{}
		}
		x.Headers[h.name] = h.text.render(values)
	}
	return haulier.Task{HTTP: x}
}

func (t *httpTask) texts() []*text {
	out := []*text{t.url, t.method, t.secret}
	for _, h := range t.headers {
		out = append(out, h.text)
	}
	return out
}

func (*httpTask) takesEnv() bool { return false }
func (*httpTask) idle() bool     { return false }

// notify reads who is told of a job's end: an address, or a list of mappings with url, on and secret.
func (r *reader) notify(n *yaml.Node) (out []haulier.Notify) {
	if n.Kind == yaml.ScalarNode {
		if u, ok := r.word(n, "notify"); ok {
			out = append(out, haulier.Notify{URL: u})
		}
		return out
	}
	all := r.list(n, "notify")
	if len(all) > haulier.MaxNotify {
		r.fail(n, "notify has %d addresses: at most %d", len(all), haulier.MaxNotify)
		return nil
	}
	for _, item := range all {
		var x haulier.Notify
		r.fields(item, "notify", map[string]func(*yaml.Node){
			"url":    func(v *yaml.Node) { x.URL, _ = r.word(v, "url") },
			"secret": func(v *yaml.Node) { x.Secret, _ = r.word(v, "secret") },
			"on": func(v *yaml.Node) {
				if w, ok := r.word(v, "on"); ok {
					x.On = haulier.Condition(w)
				}
				if !x.On.Valid() {
					r.fail(v, "on must be succeeded, failed or finished, and is %.40q", v.Value)
				}
			},
		})
		if x.URL == "" {
			r.fail(item, "this part of notify has no url: name the address to tell")
		}
		out = append(out, x)
	}
	return out
}
