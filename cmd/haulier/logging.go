package main

import (
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// logFlags say how the long-lived commands log, which they do to standard error.
type logFlags struct {
	Format string
	Level  string
}

func (f *logFlags) register(fs *pflag.FlagSet, level string) {
	fs.StringVar(&f.Format, "log-format", "text", "`FORMAT` of the log: text or json [env]")
	fs.StringVar(&f.Level, "log-level", level, "`LEVEL` of the log: debug, info, warn or error [env]")
}

func (f *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.Level)); err != nil {
		return nil, usagef("--log-level is %q: it is debug, info, warn or error", f.Level)
	}
	o := &slog.HandlerOptions{Level: level}
	switch f.Format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, usagef("--log-format is %q: it is text or json", f.Format)
}
