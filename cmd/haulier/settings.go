package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
)

// settings are what every command knows.
type settings struct {
	URL    string
	Token  string
	Tenant string
	Output string // text or json
	Config string // file; "": the usual one, if there is one
	env    func(string) string
}

// configurable are the flags that the environment and the configuration file may
// set too. Others are about one call alone, or, as with the queue, have names
// in the environment that a running job uses.
var configurable = []string{"url", "token", "tenant", "output", "data", "store", "blobs", "listen", "durability", "log-format", "log-level"}

func (s *settings) register(f *pflag.FlagSet) {
	f.StringVar(&s.URL, "url", client.DefaultURL, "`URL` of the server [env]")
	f.StringVar(&s.Token, "token", "", "`SECRET` that lets this program in; a server of this user on this machine needs none [env]")
	f.StringVar(&s.Tenant, "tenant", "", "`NAME` of the tenant; the token's own unless said [env]")
	f.StringVarP(&s.Output, "output", "o", "text", "`FORMAT` of what is printed: text or json [env]")
	f.StringVar(&s.Config, "config", "", "configuration `FILE`; $XDG_CONFIG_HOME/haulier/config.yaml unless said [env]")
}

// complete fills in what the command line left out: from the environment, then from the file.
func (s *settings) complete(flags *pflag.FlagSet, env func(string) string) error {
	s.env = env
	file, path, err := s.file(flags.Changed("config"))
	if err != nil {
		return err
	}
	for _, name := range configurable {
		f := flags.Lookup(name)
		if f == nil || f.Changed {
			continue
		}
		variable := "HAULIER_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		value, from := env(variable), variable
		if value == "" {
			value, from = file[name], path+": "+name
		}
		if value == "" {
			continue
		}
		if err := f.Value.Set(value); err != nil {
			return usagef("%s: %v", from, err)
		}
	}
	if s.Output != "text" && s.Output != "json" {
		return usagef("--output is %q: it is text or json", s.Output)
	}
	return nil
}

// file reads the configuration file. That there is none is an error only when it was named.
func (s *settings) file(named bool) (values map[string]string, path string, err error) {
	path = s.Config
	if !named && s.env("HAULIER_CONFIG") != "" {
		path, named = s.env("HAULIER_CONFIG"), true
	}
	if path == "" {
		dir, err := s.folder("XDG_CONFIG_HOME", ".config")
		if err != nil {
			return nil, "", nil //nolint:nilerr // without a home there is no file
		}
		path = filepath.Join(dir, "config.yaml")
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil, "", nil
	}
	if err == nil {
		values, err = parseConfig(b)
	}
	if err != nil {
		return nil, path, fmt.Errorf("configuration file %s: %w", path, err)
	}
	for name := range values {
		if !slices.Contains(configurable, name) {
			return nil, path, fmt.Errorf("configuration file %s: %w: %.40q is no setting; there are %s", path, haulier.ErrInvalid, name, strings.Join(configurable, ", "))
		}
	}
	return values, path, nil
}

// folder is this program's folder of a kind, by the XDG base directories: the variable's, or else under the home.
func (s *settings) folder(variable, under string) (string, error) {
	base := s.env(variable)
	if base == "" {
		home := s.env("HOME")
		if home == "" {
			return "", fmt.Errorf("%w: neither %s nor HOME is set; set one, or name the folder by its flag", haulier.ErrInvalid, variable)
		}
		base = filepath.Join(home, under)
	}
	return filepath.Join(base, "haulier"), nil
}

func (s *settings) dataFolder() (string, error) { return s.folder("XDG_DATA_HOME", ".local/share") }

func (s *settings) stateFolder() (string, error) { return s.folder("XDG_STATE_HOME", ".local/state") }

func (s *settings) json() bool { return s.Output == "json" }

// here reports whether the server runs on this machine, as far as its URL tells.
func (s *settings) here() bool {
	u, err := url.Parse(s.URL)
	return err == nil && client.Loopback(u.Hostname())
}
