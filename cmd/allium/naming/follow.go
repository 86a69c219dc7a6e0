package naming

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/source"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/gateway/api/client/namewatch"
	"allium/internal/limits"
	"allium/internal/printable"
	"allium/node/files/follow"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// ledgersDir is the directory of what follow has written where, below the home directory.
const ledgersDir = "follow"

// followOptions are the flags of follow.
type followOptions struct {
	maxBytes term.Size
	mirror   bool
	once     bool
	anyCase  bool
	links    bool
}

// FollowCommand returns `allium follow`.
func FollowCommand(a *cli.App) *cobra.Command {
	o := followOptions{maxBytes: 10 << 30}
	cmd := &cobra.Command{
		Use:   "follow NAME DIR",
		Short: "Keep a directory at what a name says",
		Long: `Bring a directory to what a name stands for, and again each time that this changes,
until the command is interrupted. It makes the directory if there is none.

It fetches only the files that differ. When all of them are here and proved, each
replaces the old one whole. If the name changes before that, it turns to the newer
version; if it is withdrawn, the directory stays as it is.

A file that was edited here is not lost: if the name says something else, the file is
set aside as NAME.edited-DATE-TIME. Only what this command wrote is removed, with
--mirror everything else too, except what was set aside. It remembers what it wrote
below follow/ of the home directory (with node.amnesia, until it ends).

A version above --max-bytes is refused before any of its files is fetched. On a terminal
the state is on one line; else each change is a line. The command waits for a node that
restarts and for the network. One command follows in a directory at a time.`,
		Example: `  allium follow blog.site ./blog
  allium follow blog.site/2026 ./blog --mirror --max-bytes 500MiB
  allium follow blog.site ./blog --once --json`,
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			if err := cli.CheckOutput(arg[1]); err != nil {
				return err
			}
			return a.Watch(cmd.Context(), func(ctx context.Context, n *client.Client) error {
				return followKey(ctx, a, n, arg[0], arg[1], o)
			})

		},
		ValidArgsFunction: func(_ *cobra.Command, got []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(got) == 1 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	source.TimeoutFlag(cmd)
	f := cmd.Flags()
	f.Var(&o.maxBytes, "max-bytes", "most bytes that a version may have, files and lists of names, such as 500MiB")
	f.BoolVar(&o.mirror, "mirror", false, "remove everything that the name does not have, except what was set aside")
	f.BoolVar(&o.once, "once", false, "bring the directory to what the name says now, and end")
	f.BoolVar(&o.anyCase, "allow-case-collisions", false, "allow names in one directory that differ only in case")
	f.BoolVar(&o.links, "follow-symlink", false,
		"allow DIR to be a symbolic link, and follow in the directory it leads to")
	return cmd
}

// followKey is the command.
func followKey(ctx context.Context, a *cli.App, n *client.Client, key, dir string, o followOptions) (err error) {
	if o.maxBytes <= 0 {
		return failure.NewUsage("give at least one byte, such as 500MiB", "--max-bytes is %s", limits.Bytes(o.maxBytes))
	}
	home, err := a.HomePath()
	if err != nil {
		return err
	}
	if err := placeToFollow(dir, home, o.mirror); err != nil {
		return err
	}
	if err := checkName(ctx, n, key); err != nil {
		return err
	}
	ledgers := "" // with amnesia nothing is remembered
	if _, err := n.Keep(ctx, []b3.Root{{}}); err == nil {
		if home, err = a.HomeDir(); err != nil {
			return err
		}
		ledgers = filepath.Join(home, ledgersDir)
	} else if status.Of(err) != status.Amnesia {
		return err
	}
	d, err := follow.Open(dir, ledgers, o.links)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	tell := &followPrinter{a: a, ctx: ctx, line: stateLine(a), name: key, dir: dir}
	defer tell.line.Clear()
	if why := d.Forgot(); why != nil {
		note(a, tell.line, why.Error()+"; nothing that was written before is removed, and what differs is set aside")
	}
	how := follow.Options{
		MaxBytes: int64(o.maxBytes), Mirror: o.mirror, AllowCaseCollisions: o.anyCase, Report: tell.progress,
	}
	if o.once {
		return followOnce(ctx, n, d, how, tell)
	}
	updates, err := namewatch.Watch(ctx, n, []string{key})
	if err != nil {
		return err
	}
	return errors.Join(follow.Run(ctx, d, n, targets(updates), how, tell), tell.err)
}

// followOnce brings the directory to what the name says now.
func followOnce(ctx context.Context, n *client.Client, d *follow.Dir, o follow.Options, tell *followPrinter) error {
	answer, err := n.Resolve(ctx, tell.name, api.Query{Limit: 1})
	t := targetOf(answer, err)
	if t.Err != nil {
		return t.Err
	}
	tell.Begun(t)
	stats, err := d.Update(ctx, n, t.Key, o)
	if err != nil {
		return err
	}
	tell.Done(t, &stats)
	return tell.err
}

// placeToFollow refuses directories in which a name would take the place of what must not be lost.
func placeToFollow(dir, home string, mirror bool) error {
	abs, err := cli.RealPath(dir)
	if err != nil {
		return err
	}
	if home, err = cli.RealPath(home); err != nil {
		return err
	}
	if within(abs, home) || within(home, abs) && mirror {
		return status.Errorf(status.BadRequest,
			"%s is in the home directory of the node, or around it; name another one", dir)
	}
	user, err := os.UserHomeDir()
	if err == nil {
		user, err = cli.RealPath(user)
	}
	if mirror && (err == nil && within(user, abs) || filepath.Dir(abs) == abs) {
		return status.Errorf(status.BadRequest,
			"--mirror would remove everything of yours in %s; name another directory", dir)
	}
	return nil
}

// within reports whether path is top, or below it.
func within(path, top string) bool {
	rel, err := filepath.Rel(top, path)
	return err == nil && filepath.IsLocal(rel)
}

// targets turns answers about a name into targets.
func targets(updates iter.Seq[namewatch.Update]) iter.Seq[follow.Target] {
	return func(yield func(follow.Target) bool) {
		for u := range updates {
			if u.Lost == 0 && !yield(targetOf(u.Answer, u.Err)) {
				return
			}
		}
	}
}

// targetOf returns what an answer says.
func targetOf(r api.Resolved, err error) follow.Target {
	switch {
	case err != nil:
		return follow.Target{Err: err}
	case r.Target.IsZero():
		return follow.Target{Err: status.Errorf(status.BadRequest,
			"%s stands for text; a directory is needed", term.Quote(r.Key))}
	}
	t := follow.Target{Key: strings.TrimSuffix(r.Target.String()+"/"+r.Path, "/")}
	if len(r.Chain) > 0 {
		t.Seq = r.Chain[0].Seq
	}
	return t
}

// followPrinter tells the user what follow does. Its methods are those of a [follow.Observer].
type followPrinter struct {
	a    *cli.App
	ctx  context.Context //nolint:containedctx // it lasts as long as the command
	line *term.Line
	name string
	dir  string

	what   string // that is fetched
	shown  time.Time
	failed state
	err    error // of the output
}

// Begun implements follow.Observer.
func (f *followPrinter) Begun(t follow.Target) {
	f.what = fmt.Sprintf("%s: number %d, %s", f.name, t.Seq, failure.Short(t.Key))
	f.line.Set(f.what + ": reading what it has")
}

// progress shows how much of what differs was fetched.
func (f *followPrinter) progress(p api.Progress) {
	const every = 100 * time.Millisecond // a terminal shows no more
	if now := time.Now(); now.Sub(f.shown) >= every {
		f.shown = now
		f.line.Set(fmt.Sprintf("%s: %s of %s", f.what, term.Bytes(p.Bytes),
			term.Bytes(p.TotalBytes)))
	}
}

// Done implements follow.Observer.
func (f *followPrinter) Done(t follow.Target, s *follow.Stats) {
	f.failed = state{}
	if s != nil {
		f.line.Clear()
		done := dirUpdate{
			At: time.Now().UTC().Truncate(time.Millisecond), Name: f.name, Seq: t.Seq,
			Key: t.Key, Dir: f.dir, Stats: *s,
		}
		f.err = errors.Join(f.err, f.a.Print(done, done.Line(f.a.Quiet)))
	}
	f.line.Set(fmt.Sprintf("%s is number %d, %s, looked up at %s", f.name, t.Seq, failure.Short(t.Key),
		time.Now().Format(time.TimeOnly)))
}

// Failed implements follow.Observer.
func (f *followPrinter) Failed(err error) {
	if status.Of(err) == status.Gone {
		err = status.Errorf(status.Gone, "%w; the directory %s stays as it is", err, f.dir)
	}
	_ = noteError(f.ctx, f.a, f.line, &f.failed, err) // it is told there
}

// dirUpdate is a directory that was brought to what a name says.
type dirUpdate struct {
	At   time.Time `json:"at"`
	Name string    `json:"name"` // as it was given
	Seq  uint64    `json:"seq"`  // the number of its record
	Key  string    `json:"key"`  // what it leads to: an address, and the path below it
	Dir  string    `json:"dir"`
	follow.Stats
}

// Line describes it in one line; what was set aside follows in further ones. With quiet it is the address.
func (f dirUpdate) Line(quiet bool) string {
	if quiet {
		return printable.Name(f.Key)
	}
	s := fmt.Sprintf("%s  %s  number %d  %s  %d kept, %d written (%s), %d removed",
		term.Stamp(f.At), printable.Name(f.Name),
		f.Seq, printable.Name(f.Key), f.Kept, f.Written, term.Bytes(f.Bytes), f.Removed)
	if f.Left > 0 {
		s += ", " + printable.Count(f.Left, "edited file") + " left that it does not have"
	}
	for _, a := range f.Aside {
		s += "\n  set aside: " + printable.Name(a.Path) + " is now " + printable.Name(a.As)
	}
	if more := f.AsideCount - int64(len(f.Aside)); more > 0 {
		s += fmt.Sprintf("\n  and %d more", more)
	}
	return s
}
