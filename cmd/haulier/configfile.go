package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/haulier/haulier"
)

// parseConfig reads a configuration file: one JSON object, or lines of the form
//
//	name: value        # a remark
//	name: "value"
//
// which are also YAML. All values are text. The error wraps haulier.ErrInvalid.
func parseConfig(b []byte) (map[string]string, error) {
	values := map[string]string{}
	if bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		if err := json.Unmarshal(b, &values); err != nil {
			return nil, fmt.Errorf("%w: it is no JSON object with text as its values: %w", haulier.ErrInvalid, err)
		}
		return values, nil
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line == "---" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if !ok || name == "" || strings.ContainsAny(name, " \t\"'") || value != "" && value[0] != ' ' && value[0] != '\t' {
			return nil, fmt.Errorf("%w: line %d is not of the form name: value", haulier.ErrInvalid, n)
		}
		if _, twice := values[name]; twice {
			return nil, fmt.Errorf("%w: line %d sets %s again; remove one of them", haulier.ErrInvalid, n, name)
		}
		value, err := configValue(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", haulier.ErrInvalid, n, err)
		}
		values[name] = value
	}
	return values, nil
}

// configValue takes the quotes or the remark off a value.
func configValue(v string) (string, error) {
	if v == "" || v[0] == '#' {
		return "", nil
	}
	if v[0] != '"' && v[0] != '\'' {
		if i := strings.Index(v, " #"); i >= 0 {
			v = strings.TrimSpace(v[:i])
		}
		return v, nil
	}
	end := closingQuote(v)
	if end < 0 {
		return "", fmt.Errorf("a quote is not closed")
	}
	if rest := strings.TrimSpace(v[end+1:]); rest != "" && rest[0] != '#' {
		return "", fmt.Errorf("something follows the closing quote")
	}
	if v[0] == '\'' {
		return strings.ReplaceAll(v[1:end], "''", "'"), nil
	}
	text, err := strconv.Unquote(v[:end+1])
	if err != nil {
		return "", fmt.Errorf("%.40s is not quoted right", v)
	}
	return text, nil
}

// closingQuote is the place of the quote that ends the value; -1: there is none.
func closingQuote(v string) int {
	for i := 1; i < len(v); i++ {
		switch {
		case v[i] == '\\' && v[0] == '"':
			i++
		case v[i] == '\'' && v[0] == '\'' && i+1 < len(v) && v[i+1] == '\'':
			i++
		case v[i] == v[0]:
			return i
		}
	}
	return -1
}
