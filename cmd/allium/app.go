package main

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

// completionTimeout bounds a question that a shell's completion asks a node. Then the shell gets the words that
// arrived.
const completionTimeout = time.Second

// app holds the state that all commands share: the global flags and the streams.
type app struct {
	home       string
	configFile string
	json       bool
	quiet      bool
	logLevel   string
	logFormat  string
	api        string // URL of an admin listener; empty for the node of the home directory
	tokenFile  string
	embedded   bool           // the command ran a node itself, whose lookups are gone with it
	waiting    *term.Progress // says that the command waits for the node, until something else is written; may be nil

	streams
}

// streams are what a command reads from and writes to.
type streams struct {
	stdin      io.Reader
	stdout     io.Writer
	stderr     io.Writer
	columns    int // width of the terminal that stdout is; 0 if it is none
	errColumns int // width of the terminal that stderr is; 0 if it is none
}

// newApp returns the state of a command that works on the streams of this process.
func newApp() *app {
	return &app{streams: streams{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		columns: term.Columns(os.Stdout), errColumns: term.Columns(os.Stderr),
	}}
}

// report writes the sentence of err to standard error, and returns the exit code
// of its outcome. With --log-level debug the chain of causes follows.
func (a *app) report(err error, task failure.Task) int {
	if a.tokenFile == "" && os.Getenv(tokenEnv) == "" && failure.OutcomeOf(err) == status.Unauthenticated {
		task.Advice = "name a file that has one with --token-file, or set $" + tokenEnv
	}
	f := failure.Of(err, task)
	if a.json {
		_ = json.NewEncoder(a.stderr).Encode(f.Report) // there is nowhere else to say that it failed
		return f.Outcome.Exit()
	}
	sentence := "allium: " + f.Sentence
	if task.Why && !a.embedded && f.Report.LookupID != "" && f.Outcome != status.Canceled {
		sentence += " `allium why " + f.Report.LookupID + "` shows what was asked."
	}
	if a.logLevel == "debug" {
		sentence += "\n  outcome " + f.Outcome.String()
		if f.Report.LookupID != "" {
			sentence += ", lookup " + f.Report.LookupID
		}
		for _, cause := range f.Chain {
			sentence += "\n  " + cause
		}
	}
	fmt.Fprintln(a.stderr, term.Wrap(sentence, a.errColumns))
	return f.Outcome.Exit()
}

// progress returns a function that reports progress and one to call at the end.
// On a terminal a line appears once the work has taken a second. In a pipe, with
// -q and with --json the function is nil and nothing is drawn.
func (a *app) progress(what string) (api.ProgressFunc, func()) { return a.bar(what, true) }

// bar is progress of something that is counted, in bytes or not.
func (a *app) bar(what string, bytes bool) (api.ProgressFunc, func()) {
	if p := a.line(what, bytes); p != nil {
		return p.Report, p.Finish
	}
	return nil, func() {}
}

// line is bar for a command that prints results meanwhile. It returns nil where nothing is drawn.
func (a *app) line(what string, bytes bool) *term.Progress {
	a.waiting.Finish()
	if a.errColumns == 0 || a.quiet || a.json {
		return nil
	}
	return term.NewProgress(a.stderr, a.errColumns, what, bytes)
}

// wait shows a line on a terminal once the command has waited for the node for a second, until it writes something or
// done is called.
func (a *app) wait(what string) (done func()) {
	a.waiting = a.line("waiting for the node: "+what, false)
	return a.waiting.Finish
}

// homePath returns the absolute path of the node's directory, which need not exist. Only init, run and
// commands that work without a home call it; the others call [app.homeDir].
func (a *app) homePath() (string, error) {
	home := a.home
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

// homeDir returns the absolute path of the home directory. One that does not exist is not_found, and one
// of another user is forbidden: no command makes a home by mistake, or writes files that the owner's node
// cannot open.
func (a *app) homeDir() (string, error) {
	home, err := a.homePath()
	if err != nil {
		return "", err
	}
	return home, homedir.Check(home)
}

// newHome is homeDir for a command that makes a home directory if there is none.
func (a *app) newHome() (string, error) {
	home, err := a.homePath()
	if err != nil {
		return "", err
	}
	return home, homedir.CheckNew(home)
}

// load reads the configuration of the home directory.
func (a *app) load() (config.Loaded, string, error) {
	home, err := a.homeDir()
	if err != nil {
		return config.Loaded{}, "", err
	}
	cfg, err := a.loadAt(home, nil)
	return cfg, home, err
}

// loadAt is load for a home directory that need not exist. flags holds the values of a command's own flags,
// by configuration key.
func (a *app) loadAt(home string, flags map[string]any) (config.Loaded, error) {
	if flags == nil {
		flags = map[string]any{}
	}
	if a.logLevel != "" {
		flags["log.level"] = a.logLevel
	}
	if a.logFormat != "" {
		flags["log.format"] = a.logFormat
	}
	o := config.Options{File: filepath.Join(home, config.FileName), Env: os.Environ(), Flags: flags}
	if a.configFile != "" {
		o.File, o.Required = a.configFile, true
	}
	return config.Load(o)
}

// node returns a client of the home directory's node, or of the one at --api. It
// connects to nothing yet: if no node runs, the first call returns
// client.ErrNotRunning. The caller closes the client.
func (a *app) node() (*client.Client, error) {
	if a.api != "" {
		if !strings.HasPrefix(a.api, "http://") && !strings.HasPrefix(a.api, "https://") {
			return nil, failure.NewUsage("write http://127.0.0.1:9600", "--api is %q, which is no URL", a.api)
		}
		token, err := token(a, a.tokenFile)
		if err != nil {
			return nil, err
		}
		return client.NewWith(a.api, client.Options{Token: token})
	}
	home, err := a.homePath()
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

// withStore runs f on the running node, or on its store if no node runs. If f
// returns client.ErrNotRunning it must not have had an effect.
func (a *app) withStore(ctx context.Context, f func(api.Store) error) error {
	n, err := a.node()
	if err != nil {
		return err
	}
	defer n.Close()
	if err := f(n); !errors.Is(err, client.ErrNotRunning) || a.api != "" {
		return err
	}
	cfg, home, err := a.load()
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

// print writes one result to standard output: v as a line of JSON with --json,
// else human, unless that is empty. Characters of human that a terminal would act
// on are escaped, except line breaks and tabs: names in it have passed through
// printable.Name.
func (a *app) print(v any, human string) error {
	a.waiting.Finish()
	if a.json {
		return json.NewEncoder(a.stdout).Encode(v)
	}
	if human == "" {
		return nil
	}
	_, err := fmt.Fprintln(a.stdout, printable.Text(human))
	return err
}

// none says on a terminal that a list is empty. A program reads an empty list.
func (a *app) none(sentence string) error {
	if a.columns == 0 || a.quiet || a.json {
		return nil
	}
	return a.print(nil, sentence)
}

// tell writes a sentence to standard error, unless only results are wanted.
func (a *app) tell(sentence string) error {
	if a.quiet || a.json {
		a.waiting.Finish()
		return nil
	}
	return a.warn(sentence)
}

// warn writes a sentence to standard error.
func (a *app) warn(sentence string) error {
	a.waiting.Finish()
	_, err := fmt.Fprintln(a.stderr, "allium: "+sentence)
	return err
}

// watch runs f, which works until it is interrupted, with a client of the node. That it was
// interrupted is no error.
func (a *app) watch(ctx context.Context, f func(context.Context, *client.Client) error) error {
	n, err := a.node()
	if err != nil {
		return err
	}
	defer n.Close()
	if err = f(ctx, n); ctx.Err() != nil && status.Of(err) == status.Canceled {
		return nil
	}
	return err
}

// loud returns text, or nothing with -q.
func (a *app) loud(text string) string {
	if a.quiet {
		return ""
	}
	return text
}

// onNode returns the function of a command that needs a running node.
func (a *app) onNode(
	f func(ctx context.Context, n api.Node, arg []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, arg []string) error {
		n, err := a.node()
		if err != nil {
			return err
		}
		defer n.Close()
		defer a.wait(cmd.Name())()
		return f(cmd.Context(), n, arg)
	}
}

// logger returns a logger that writes to standard error.
func logger(a *app, format string, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(a.stderr, o))
	}
	return slog.New(slog.NewTextHandler(a.stderr, o))
}
