// Package cli holds what all commands of allium share: the global flags, the
// streams, the node that they talk to, and how they print.
//
// An App is the state of one command. Node returns a client of the node of its home
// directory, WithStore that node or its store, Print writes a result, and Report the
// sentence of an error. Args and NoArgs check arguments, and CheckOutput a file that
// is about to be written. The packages of commands are built on it, and it knows none
// of them.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/failure"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/internal/printable"
	"allium/node"
	"allium/node/config"
	homedir "allium/node/home"
	"allium/protocols/status"
)

// CompletionTimeout bounds a question that a shell's completion asks a node. Then the shell gets the words that
// arrived.
const CompletionTimeout = time.Second

// App holds the state that all commands share: the global flags and the streams. One command uses it.
type App struct {
	Home       string // directory of the node; empty for the default, see [App.HomePath]
	ConfigFile string // empty for the one in the home directory
	JSON       bool
	Quiet      bool
	LogLevel   string // empty for the configuration's, and so is LogFormat
	LogFormat  string
	API        string // URL of an admin listener; empty for the node of the home directory
	TokenFile  string
	Embedded   bool           // the command ran a node itself, whose lookups are gone with it
	waiting    *term.Progress // says that the command waits for the node, until something else is written; may be nil

	Streams
}

// Streams are the standard streams of a command, and how wide a terminal they are.
type Streams struct {
	Stdin      io.Reader
	Stdout     io.Writer
	Stderr     io.Writer
	Columns    int // width of the terminal that stdout is; 0 if it is none
	ErrColumns int // width of the terminal that stderr is; 0 if it is none
}

// New returns the state of a command that works on the streams of this process.
func New() *App {
	return &App{Streams: Streams{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Columns: term.Columns(os.Stdout), ErrColumns: term.Columns(os.Stderr),
	}}
}

// Report writes the sentence of err to standard error, and returns the exit code
// of its outcome. With --log-level debug the chain of causes follows.
func (a *App) Report(err error, task failure.Task) int {
	if a.TokenFile == "" && os.Getenv(tokenEnv) == "" && failure.OutcomeOf(err) == status.Unauthenticated {
		task.Advice = "name a file that has one with --token-file, or set $" + tokenEnv
	}
	f := failure.Of(err, task)
	if a.JSON {
		_ = json.NewEncoder(a.Stderr).Encode(f.Report) // there is nowhere else to say that it failed
		return f.Outcome.Exit()
	}
	sentence := "allium: " + f.Sentence
	if task.Why && !a.Embedded && f.Report.LookupID != "" && f.Outcome != status.Canceled {
		sentence += " `allium why " + f.Report.LookupID + "` shows what was asked."
	}
	if a.LogLevel == "debug" {
		sentence += "\n  outcome " + f.Outcome.String()
		if f.Report.LookupID != "" {
			sentence += ", lookup " + f.Report.LookupID
		}
		for _, cause := range f.Chain {
			sentence += "\n  " + cause
		}
	}
	fmt.Fprintln(a.Stderr, term.Wrap(sentence, a.ErrColumns))
	return f.Outcome.Exit()
}

// Progress returns a function that reports progress and one to call at the end.
// On a terminal a line appears once the work has taken a second. In a pipe, with
// -q and with --json the function is nil and nothing is drawn.
func (a *App) Progress(what string) (api.ProgressFunc, func()) { return a.Bar(what, true) }

// Bar is progress of something that is counted, in bytes or not.
func (a *App) Bar(what string, bytes bool) (api.ProgressFunc, func()) {
	if p := a.Line(what, bytes); p != nil {
		return p.Report, p.Finish
	}
	return nil, func() {}
}

// Line is bar for a command that prints results meanwhile. It returns nil where nothing is drawn.
func (a *App) Line(what string, bytes bool) *term.Progress {
	a.waiting.Finish()
	if a.ErrColumns == 0 || a.Quiet || a.JSON {
		return nil
	}
	return term.NewProgress(a.Stderr, a.ErrColumns, what, bytes)
}

// Wait shows a line on a terminal once the command has waited for the node for a second, until it writes something or
// done is called.
func (a *App) Wait(what string) (done func()) {
	a.waiting = a.Line("waiting for the node: "+what, false)
	return a.waiting.Finish
}

// HomePath returns the absolute path of the node's directory, which need not exist. Only init, run and
// commands that work without a home call it; the others call [App.HomeDir].
func (a *App) HomePath() (string, error) {
	home := a.Home
	if home == "" {
		home = os.Getenv("ALLIUM_HOME")
	}
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", failure.NewUsage("name the node's directory with --home or ALLIUM_HOME",
				"this user has no home directory: %v", err)
		}
		home = filepath.Join(user, ".allium")
	}
	return filepath.Abs(home)
}

// HomeDir returns the absolute path of the home directory. A directory that does not exist is not_found, and one of
// another user is forbidden: no command makes a home by mistake, or writes files that the owner's node cannot open.
func (a *App) HomeDir() (string, error) {
	home, err := a.HomePath()
	if err != nil {
		return "", err
	}
	return home, homedir.Check(home)
}

// NewHome is HomeDir for a command that makes a home directory if there is none.
func (a *App) NewHome() (string, error) {
	home, err := a.HomePath()
	if err != nil {
		return "", err
	}
	return home, homedir.CheckNew(home)
}

// Load reads the configuration of the home directory.
func (a *App) Load() (config.Loaded, string, error) {
	home, err := a.HomeDir()
	if err != nil {
		return config.Loaded{}, "", err
	}
	cfg, err := a.LoadAt(home, nil)
	return cfg, home, err
}

// LoadAt is Load for a home directory that need not exist. flags holds the values of a command's own flags,
// by configuration key.
func (a *App) LoadAt(home string, flags map[string]any) (config.Loaded, error) {
	if flags == nil {
		flags = map[string]any{}
	}
	if a.LogLevel != "" {
		flags["log.level"] = a.LogLevel
	}
	if a.LogFormat != "" {
		flags["log.format"] = a.LogFormat
	}
	o := config.Options{File: filepath.Join(home, config.FileName), Env: os.Environ(), Flags: flags}
	if a.ConfigFile != "" {
		o.File, o.Required = a.ConfigFile, true
	}
	return config.Load(o)
}

// Node returns a client of the home directory's node, or of the one at --api. It
// connects to nothing yet: if no node runs, the first call returns
// client.ErrNotRunning. The caller closes the client.
func (a *App) Node() (*client.Client, error) {
	if a.API != "" {
		if !strings.HasPrefix(a.API, "http://") && !strings.HasPrefix(a.API, "https://") {
			return nil, failure.NewUsage("write http://127.0.0.1:9600", "--api is %q, which is no URL", a.API)
		}
		token, err := Token(a, a.TokenFile)
		if err != nil {
			return nil, err
		}
		return client.NewWith(a.API, client.Options{Token: token})
	}
	home, err := a.HomePath()
	if err != nil {
		return nil, err
	}
	none := homedir.Check(home)
	if none != nil && !errors.Is(none, homedir.ErrNone) {
		return nil, none
	}
	socket, err := api.SocketPath(home)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(socket); err != nil && none != nil { // a node without files may have a socket alone
		return nil, none
	}
	return client.NewWith(socket, client.Options{Starting: func() bool { return homedir.InUse(home) }})
}

// WithStore runs f on the running node, or on its store if no node runs. If f
// returns client.ErrNotRunning it must not have had an effect.
func (a *App) WithStore(ctx context.Context, f func(api.Store) error) error {
	n, err := a.Node()
	if err != nil {
		return err
	}
	defer n.Close()
	if err := f(n); !errors.Is(err, client.ErrNotRunning) || a.API != "" {
		return err
	}
	cfg, home, err := a.Load()
	if err != nil {
		return err
	}
	off, err := node.OpenOffline(ctx, home, cfg.Config)
	if status.Of(err) == status.Busy { // perhaps by a node that has come since
		if answer := f(n); !errors.Is(answer, client.ErrNotRunning) {
			return answer
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(f(off), off.Close())
}

// Print writes one result to standard output: v as a line of JSON with --json,
// else human, unless that is empty. Characters of human that a terminal would act
// on are escaped, except line breaks and tabs: names in it have passed through
// printable.Name.
func (a *App) Print(v any, human string) error {
	a.waiting.Finish()
	if a.JSON {
		return json.NewEncoder(a.Stdout).Encode(v)
	}
	if human == "" {
		return nil
	}
	_, err := fmt.Fprintln(a.Stdout, printable.Text(human))
	return err
}

// None says on a terminal that a list is empty. A program reads an empty list.
func (a *App) None(sentence string) error {
	if a.Columns == 0 || a.Quiet || a.JSON {
		return nil
	}
	return a.Print(nil, sentence)
}

// Tell writes a sentence to standard error, unless only results are wanted.
func (a *App) Tell(sentence string) error {
	if a.Quiet || a.JSON {
		a.waiting.Finish()
		return nil
	}
	return a.Warn(sentence)
}

// Warn writes a sentence to standard error.
func (a *App) Warn(sentence string) error {
	a.waiting.Finish()
	_, err := fmt.Fprintln(a.Stderr, "allium: "+sentence)
	return err
}

// Watch runs f, which works until it is interrupted, with a client of the node. That it was
// interrupted is no error.
func (a *App) Watch(ctx context.Context, f func(context.Context, *client.Client) error) error {
	n, err := a.Node()
	if err != nil {
		return err
	}
	defer n.Close()
	if err = f(ctx, n); ctx.Err() != nil && status.Of(err) == status.Canceled {
		return nil
	}
	return err
}

// Loud returns text, or nothing with -q.
func (a *App) Loud(text string) string {
	return a.Text(text, "")
}

// Text returns what is printed of a result: human, and brief with -q.
func (a *App) Text(human, brief string) string {
	if a.Quiet {
		return brief
	}
	return human
}

// OnNode returns the function of a command that needs a running node.
func (a *App) OnNode(
	f func(ctx context.Context, n api.Node, arg []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, arg []string) error {
		n, err := a.Node()
		if err != nil {
			return err
		}
		defer n.Close()
		defer a.Wait(cmd.Name())()
		return f(cmd.Context(), n, arg)
	}
}

// Logger returns a logger that writes to standard error.
func Logger(a *App, format string, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(a.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(a.Stderr, o))
}
