package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/journal"
)

const enqueueLong = `Enqueue jobs of a type, for the workers that have a function for it, and print their
ids, one a line.

With --lines, each line of the file that is not empty and does not begin with # is the payload of a
job; they are added in batches of up to 1000, each of which is added whole or not at all.

With --container, the job runs in a container of that image; the command that follows -- takes the place of the
image's own.

With --key, repeating the command within a week adds nothing and prints the same ids.

With --journal, the jobs go into a folder on this machine, durably, whether or not a server can be
reached; haulier journal ingest DIR sends them.`

type enqueueFlags struct {
	specFlags
	payload     string
	payloadFile string
	lines       string
	key         string
	journal     string
	http        httpFlags
	container   containerFlags
	wasi        wasiFlags
	script      bool
}

// httpFlags make a job a call of an address.
type httpFlags struct {
	url, method, secret string
	headers             []string
	lines               bool
	batch               int
}

func (f *httpFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.url, "http", "", "`URL` that the job calls, with the payload as the body; for workers that run http tasks")
	fs.StringVar(&f.method, "http-method", "", "`METHOD` of that call; POST unless said")
	fs.StringArrayVar(&f.headers, "http-header", nil, "`NAME=VALUE` that goes with it; may be repeated")
	fs.StringVar(&f.secret, "http-secret", "", "`NAME` of the secret that signs it; see haulier secrets")
	fs.BoolVar(&f.lines, "http-lines", false, "call as the serverless queue does: the payload as a line, and J: lines of the answer as further output")
	fs.IntVar(&f.batch, "http-batch", 0, "`N` jobs at most that share a call, a line each, and are answered by a line each")
}

func (f *httpFlags) task() (t haulier.Task, err error) {
	if f.url == "" {
		if f.method+f.secret != "" || len(f.headers) > 0 || f.lines || f.batch != 0 {
			return t, usagef("--http-… go with --http: give the URL")
		}
		return t, nil
	}
	headers, err := parseLabels("header", f.headers)
	if err != nil {
		return t, usagef("--http-header: %q has an item that is not of the form NAME=VALUE", f.headers)
	}
	t.HTTP = &haulier.HTTPTask{URL: f.url, Method: f.method, Headers: headers, Secret: f.secret, Lines: f.lines, Batch: f.batch}
	return t, nil
}

// wasiFlags make a job a WebAssembly module.
type wasiFlags struct {
	module, stdin string
	env           []string
	memory        byteSize
	cpu           time.Duration
	clock, random bool
}

func (f *wasiFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.module, "wasi", "", "`ADDRESS` of the blob with the WebAssembly module that the job runs, with what follows -- as its arguments; for workers that run wasi tasks")
	fs.StringVar(&f.stdin, "stdin", "", "`ADDRESS` of the blob that the module reads; the payload unless said")
	fs.StringArrayVar(&f.env, "wasi-env", nil, "`NAME=VALUE` for its environment; may be repeated")
	fs.Var(&f.memory, "wasi-memory", "`SIZE` of memory that it may have; what the worker allows unless said")
	fs.DurationVar(&f.cpu, "wasi-cpu", 0, "`TIME` of a processor that it may use; no limit unless said")
	fs.BoolVar(&f.clock, "wasi-clock", false, "let it see the time, and sleep")
	fs.BoolVar(&f.random, "wasi-random", false, "let it have random numbers, in place of the same ones in each run")
}

// task is nil when no module is asked for.
func (f *wasiFlags) task(args []string) (*haulier.WasiTask, error) {
	if f.module == "" {
		if f.stdin != "" || len(f.env) > 0 || f.memory != 0 || f.cpu != 0 || f.clock || f.random {
			return nil, usagef("--stdin and --wasi-… go with --wasi: give the address of a module, which haulier blobs put prints")
		}
		return nil, nil
	}
	env, err := parseLabels("wasi-env", f.env)
	if err != nil {
		return nil, err
	}
	return &haulier.WasiTask{
		Module: f.module, Stdin: f.stdin, Args: args, Env: env, Memory: int64(f.memory), CPU: haulier.Duration(f.cpu), Clock: f.clock, Random: f.random,
	}, nil
}

// linesBatch is how many jobs of --lines go into one request.
const linesBatch = 1000

func (p *program) enqueueCommand() *cobra.Command {
	var f enqueueFlags
	cmd := &cobra.Command{
		Use: "enqueue TYPE [-- COMMAND…]", Short: "Enqueue jobs for functions, handlers, calls of an address, containers or modules", Long: enqueueLong,
		Example: `  haulier enqueue mail --payload '{"to":"ann@example.com"}'
  haulier enqueue mail --payload-file letter.json --at 18:00 --label campaign=spring
  haulier enqueue thumbnail --lines images.txt --queue bulk --priority -5
  some-program | haulier enqueue thumbnail --lines -
  haulier enqueue thumbnail --script --payload cat.png
  haulier enqueue rebuild --http https://ops.example/rebuild --payload '{"site":3}'
  haulier enqueue resize --container images/magick:7 -- convert in.png out.jpg
  haulier enqueue shrink --wasi $(haulier blobs put shrink.wasm) --input photos=in -- --width 300`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.container.asked() || f.wasi.module != "" {
				return cobra.MinimumNArgs(1)(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
	}
	f.register(cmd.Flags(), 0)
	f.registerTimes(cmd.Flags())
	cmd.Flags().StringVar(&f.payload, "payload", "", "`TEXT` that the job gets; JSON for most functions")
	cmd.Flags().StringVar(&f.payloadFile, "payload-file", "", "`FILE` with the payload; - for standard input")
	cmd.Flags().StringVar(&f.lines, "lines", "", "`FILE` with a payload a line; - for standard input")
	cmd.Flags().StringVar(&f.key, "key", "", "`KEY` that makes the command safe to repeat")
	cmd.Flags().StringVar(&f.journal, "journal", "", "`DIR` on this machine that the jobs go into instead, to be sent later; see haulier journal")
	f.http.register(cmd.Flags())
	f.container.register(cmd.Flags())
	f.wasi.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.script, "script", false, "the handler of the type runs the jobs; see haulier handlers")
	cmd.MarkFlagsMutuallyExclusive("http", "container", "wasi", "script")
	cmd.MarkFlagsMutuallyExclusive("key", "journal")
	cmd.MarkFlagsMutuallyExclusive("payload", "payload-file", "lines")
	cmd.RunE = p.plain(func(ctx context.Context, args []string) error { return p.enqueue(ctx, &f, args[0], args[1:]) })
	return cmd
}

func (p *program) enqueue(ctx context.Context, f *enqueueFlags, typ string, command []string) (err error) {
	spec, err := f.spec(&p.settings, time.Now())
	if err != nil {
		return err
	}
	spec.Type = typ
	if spec.Task, err = f.http.task(); err != nil {
		return err
	}
	if spec.Task.Container, err = f.container.task(containerRun{cmd: command}); err != nil {
		return err
	}
	if spec.Task.Wasi, err = f.wasi.task(command); err != nil {
		return err
	}
	if f.script {
		spec.Task.Script = &haulier.ScriptTask{}
	}
	q, shut, err := p.producer(ctx, f.journal)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shut()) }()
	if f.lines != "" {
		return p.enqueueLines(ctx, q, f, spec)
	}
	switch {
	case f.payloadFile != "":
		in, err := p.open(f.payloadFile)
		if err != nil {
			return err
		}
		defer in.Close()
		if spec.Payload, err = readPayload(in); err != nil {
			return err
		}
	case f.payload != "":
		spec.Payload = []byte(f.payload)
	}
	ids, err := p.enqueueBatch(ctx, q, []haulier.Spec{spec}, f.key)
	if err != nil {
		return err
	}
	return p.printIDs(ids)
}

// enqueueLines adds a job a line, and prints ids as they are acknowledged. With a key, each batch has its own.
func (p *program) enqueueLines(ctx context.Context, q haulier.Producer, f *enqueueFlags, spec haulier.Spec) error {
	in, err := p.open(f.lines)
	if err != nil {
		return err
	}
	defer in.Close()
	var all []haulier.ID
	lines := newLines(in)
	lines.remarks = true
	for n := 0; ; n++ {
		batch, err := lines.batch(linesBatch)
		if err != nil {
			return fmt.Errorf("%s: %w", f.lines, err)
		}
		if len(batch) == 0 {
			break
		}
		specs := make([]haulier.Spec, len(batch))
		for i, line := range batch {
			specs[i] = spec
			specs[i].Payload = []byte(line)
		}
		key := f.key
		if key != "" {
			key = fmt.Sprintf("%s:%d", key, n)
		}
		ids, err := p.enqueueBatch(ctx, q, specs, key)
		if err != nil {
			return fmt.Errorf("line %d: %w; what comes before it was enqueued", lines.first, err)
		}
		if !p.settings.json() {
			if err := p.printIDs(ids); err != nil {
				return err
			}
		}
		all = append(all, ids...)
	}
	if p.settings.json() {
		return p.printIDs(all)
	}
	return nil
}

// enqueueBatch adds jobs all or none, but for those that a hook drops, of which it tells. Without a key it makes one up, so that a lost answer does not double them; a journal needs none.
func (p *program) enqueueBatch(ctx context.Context, q haulier.Producer, specs []haulier.Spec, key string) ([]haulier.ID, error) {
	if _, local := q.(*journal.Front); key == "" && !local {
		key = "cli:" + haulier.NewID(time.Now()).String()
	}
	results, err := q.Enqueue(ctx, []haulier.EnqueueRequest{{Jobs: specs, Key: key}})
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		return nil, err
	}
	for _, d := range results[0].Dropped {
		p.say("A job was not added: %s", d.Reason)
	}
	return slices.DeleteFunc(results[0].IDs, haulier.ID.IsNil), nil
}

// printIDs writes ids a line each, or as JSON.
func (p *program) printIDs(ids []haulier.ID) error {
	if p.settings.json() {
		if ids == nil {
			ids = []haulier.ID{}
		}
		return p.printJSON(map[string][]haulier.ID{"ids": ids})
	}
	w := bufio.NewWriter(p.out)
	for _, id := range ids {
		fmt.Fprintln(w, id)
	}
	return w.Flush()
}

// open opens a file, or standard input for "-".
func (p *program) open(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(p.in), nil
	}
	return os.Open(name)
}
