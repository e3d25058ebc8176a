package server

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/haulier/haulier"
)

func textParam(name, doc string) param {
	return param{name, doc, &huma.Schema{Type: huma.TypeString}}
}

func numberParam(name, doc string) param {
	return param{name, doc, &huma.Schema{Type: huma.TypeInteger}}
}

func boolParam(name, doc string) param {
	return param{name, doc, &huma.Schema{Type: huma.TypeBoolean}}
}

func listParam(name, doc string) param {
	return param{name, doc, &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}}
}

var tenantParam = textParam("tenant", "the tenant; left out: the token's")

// filterParams are the parameters that filter reads.
var filterParams = []param{
	textParam("tenant", "of this tenant; left out: all that the token sees"),
	textParam("queue", "of this queue"),
	textParam("type", "of this type"),
	textParam("group", "of this group"),
	listParam("state", "in this state; may be repeated: any of them"),
	listParam("label", "with this label, as key=value; may be repeated: all of them"),
}

// text is a parameter that is given at most once.
func (c *call) text(name string) (string, error) {
	list := c.query[name]
	if len(list) > 1 {
		return "", wrongQuery(name, "is given %d times: once is enough", len(list))
	}
	if len(list) == 0 {
		return "", nil
	}
	return list[0], nil
}

// number is a parameter between low and high; otherwise is the value when it is left out.
func (c *call) number(name string, low, high, otherwise int64) (int64, error) {
	v, err := c.text(name)
	if err != nil || v == "" {
		return otherwise, err
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < low || n > high {
		return 0, wrongQuery(name, "%q is no whole number from %d to %d", clip(v), low, high)
	}
	return n, nil
}

// flag is a parameter that is true or false.
func (c *call) flag(name string) (bool, error) {
	v, err := c.text(name)
	if err != nil || v == "" {
		return false, err
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, wrongQuery(name, "%q is neither true nor false", clip(v))
	}
	return b, nil
}

// wait is a duration from zero to most.
func (c *call) wait(name string, most, otherwise time.Duration) (time.Duration, error) {
	v, err := c.text(name)
	if err != nil || v == "" {
		return otherwise, err
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 || d > most {
		return 0, wrongQuery(name, "%q is no duration from 0s to %v, such as 10s", clip(v), most)
	}
	return d, nil
}

// scopeOf is the tenant that the query names, as far as the caller may see it.
func (c *call) scopeOf() (string, error) {
	tenant, err := c.text("tenant")
	if err != nil {
		return "", err
	}
	return c.who.scope(tenant)
}

// filter reads filterParams.
func (c *call) filter() (f haulier.Filter, err error) {
	if f.Tenant, err = c.scopeOf(); err != nil {
		return f, err
	}
	for name, to := range map[string]*string{"queue": &f.Queue, "type": &f.Type, "group": &f.Group} {
		if *to, err = c.text(name); err != nil {
			return f, err
		}
	}
	for _, v := range c.query["state"] {
		var st haulier.State
		if err := st.UnmarshalText([]byte(v)); err != nil {
			return f, wrongQuery("state", "%q is none of %v", clip(v), haulier.States)
		}
		f.States = append(f.States, st)
	}
	for _, v := range c.query["label"] {
		key, value, ok := strings.Cut(v, "=")
		if !ok || key == "" {
			return f, wrongQuery("label", "%q is not of the form key=value", clip(v))
		}
		if f.Labels == nil {
			f.Labels = map[string]string{}
		}
		if old, twice := f.Labels[key]; twice && old != value {
			return f, wrongQuery("label", "%q is asked to have two values at once", clip(key))
		}
		f.Labels[key] = value
	}
	return f, nil
}

func wrongQuery(name, format string, args ...any) error {
	return &haulier.FieldError{Field: "query." + name, Msg: fmt.Sprintf(format, args...)}
}
