package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"allium/gateway/api/client"
	"allium/internal/privatefile"
	homedir "allium/node/home"
	"allium/protocols/status"
)

func checkAnswers(_ context.Context, e *exam) result {
	const fix = "look into the log of the node; if it hangs, stop the process and start it again"
	switch {
	case e.Node == nil && e.Home == "":
		return fail(say("no node answers: %s", nodeErr(e)), "nothing is known of it",
			"check the URL of --api, or open the tunnel to the admin listener")
	case e.Node != nil && e.silent():
		return fail(say("a node runs and answers nothing: %s", Reason(e.node.version.err)),
			"nothing can be read or changed through it", fix)
	case e.Node != nil && e.node.health.err != nil:
		return note(say("the node does not tell its health: %s", Reason(e.node.health.err)),
			"some checks cannot be made",
			"if it is starting, wait; if it is of an earlier version, restart it with this one")
	case e.Node == nil && e.inUse:
		return fail(say("another process has locked the home directory, and no node answers: %s", nodeErr(e)),
			"neither commands nor another node can use it", fix)
	case e.Node == nil && e.nodeErr != nil && !errors.Is(e.nodeErr, client.ErrNotRunning):
		return warn(say("the socket of the node cannot be used: %s", e.nodeErr.Error()),
			"commands do not find the node when it runs", "correct what the evidence names")
	}
	return result{}
}

// nodeErr returns why there is no node.
func nodeErr(e *exam) string {
	if e.nodeErr == nil {
		return "nothing listens at its socket"
	}
	return Reason(e.nodeErr)
}

func checkConfiguration(ctx context.Context, e *exam) result {
	err := e.ConfigErr
	if err == nil && e.Check != nil {
		err = e.Check(ctx)
	}
	if err == nil {
		return result{}
	}
	if notHere := elsewhere(e, err); notHere != "" {
		return skip("see the check " + notHere)
	}
	const impact = "a node does not start with it; one that runs keeps its old settings"
	var all result
	for line := range strings.Lines(err.Error()) {
		all = all.and(fail(say("%s", strings.TrimSpace(line)), impact,
			"correct it, and let `allium config check` look at it again"))
	}
	return all
}

// elsewhere returns the name of the check that reports the same as err.
func elsewhere(e *exam, err error) string {
	switch {
	case e.ConfigErr != nil:
		return ""
	case strings.Contains(err.Error(), homedir.KeyFile) && openToOthers(filepath.Join(e.Home, homedir.KeyFile)):
		return "permissions"
	case strings.Contains(err.Error(), homedir.KeyFile) && len(identity(e).found) > 0:
		return "identity"
	case strings.Contains(err.Error(), "dht.seed_manifest"):
		return "seed_manifest"
	}
	return ""
}

func checkObsolete(_ context.Context, e *exam) (all result) {
	for _, o := range e.Config.Obsolete {
		all = all.and(note(say("%s", o.String()), "none: the value is the fixed one",
			"remove the key with `allium config unset`"))
	}
	return all
}

func checkIdentity(_ context.Context, e *exam) result { return identity(e) }

// identity looks at the key of the node.
func identity(e *exam) result {
	if e.amnesia() {
		return skip("with amnesia the node may have a new identity at each start")
	}
	_, err := homedir.ID(e.Home)
	const impact = "the node cannot start as itself: no peer would know it, and its tokens would be invalid"
	switch {
	case err == nil:
		return result{}
	case status.Of(err) == status.NotFound:
		return skip("there is none yet: `allium init` and `allium run` make one")
	case status.Of(err) == status.Corrupt:
		return fail(say("%s", Reason(err)), impact, "restore "+homedir.KeyFile+" from a backup")
	case openToOthers(filepath.Join(e.Home, homedir.KeyFile)):
		return skip("see the check permissions")
	case denied(err):
		return fail(say("this user may not read the identity: %s", Reason(err)), impact,
			"run the command as the user of the node; only that user may read it (mode 0600)")
	}
	return fail(say("the identity cannot be read: %s", Reason(err)), impact,
		"restore "+homedir.KeyFile+" from a backup")
}

// secrets are the files of a home directory that only its user may read, as patterns.
var secrets = []string{
	homedir.KeyFile, "capability.keys", "swarm.key", "zones/*.key", "acme/*",
}

// maxNamed bounds the files that a finding names.
const maxNamed = 3

// named lists the first of some names.
func named(names []string) string {
	text := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func checkPermissions(_ context.Context, e *exam) (all result) {
	info, err := os.Stat(e.Home)
	if err != nil {
		return skip("the home directory cannot be looked at: " + err.Error())
	}
	if info.Mode().Perm()&0o022 != 0 {
		all = all.and(fail(say("others may write into %s (mode %04o)", e.Home, info.Mode().Perm()),
			"every user of this machine can replace the keys of the node", "chmod 700 "+e.Home))
	} else if info.Mode().Perm()&0o077 != 0 {
		all = all.and(note(say("others may look into %s (mode %04o)", e.Home, info.Mode().Perm()),
			"every user of this machine sees the names of the files", "chmod 700 "+e.Home))
	}
	var open []string
	patterns := slices.Clone(secrets)
	if file := e.Config.Node.SwarmKey; file != "" {
		patterns = append(patterns, file)
	}
	for _, pattern := range patterns {
		found, _ := filepath.Glob(homedir.Path(e.Home, pattern)) // the patterns are well-formed
		for _, name := range found {
			if openToOthers(name) && !slices.Contains(open, name) {
				open = append(open, name)
			}
		}
	}
	if len(open) > 0 {
		all = all.and(fail(say("others can use files with keys (%d): %s", len(open), named(open)),
			"every user of this machine can act as this node",
			"chmod 600 "+strings.Join(open[:min(len(open), maxNamed)], " ")))
	}
	return all
}

// openToOthers reports whether other users may do something with a file.
func openToOthers(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&privatefile.NoAccess != 0
}

// maxOwned bounds the entries of a home directory that are looked at for their owners.
const maxOwned = 20_000

func checkOwners(ctx context.Context, e *exam) result {
	info, err := os.Stat(e.Home)
	if err != nil {
		return skip("the home directory cannot be looked at: " + err.Error())
	}
	owner, known := privatefile.Owner(info)
	if !known {
		return skip("this system does not tell")
	}
	var others []string
	looked := 0
	err = filepath.WalkDir(e.Home, func(name string, d fs.DirEntry, err error) error {
		if looked++; looked > maxOwned || ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil {
			return nil //nolint:nilerr // it was removed, or may not be read: other checks say so
		}
		if info, err := d.Info(); err == nil {
			if uid, known := privatefile.Owner(info); known && uid != owner {
				others = append(others, name)
			}
		}
		return nil
	})
	if err != nil || len(others) == 0 {
		return result{}
	}
	return fail(say("files of another user are in %s (%d): %s", e.Home, len(others), named(others)),
		"the node cannot open them; often a command was run with sudo",
		fmt.Sprintf("sudo chown -R %d %s, and run commands as that user", owner, e.Home))
}

func checkInUse(ctx context.Context, e *exam) result {
	if !e.inUse && e.Node != nil {
		return fail(say("a node runs, and the home directory is not locked"),
			"another node or command may write into its store at the same time",
			"keep the home directory on a disk of this machine, and run one node on it")
	}
	users, err := e.Machine.users(ctx, e.Home)
	if err != nil {
		return skip("/proc cannot be read")
	}
	most := 0
	if e.inUse {
		most = 1 // the node, or the command that works on the store
	}
	if len(users) <= most {
		return result{}
	}
	var words []string
	for _, u := range users {
		words = append(words, fmt.Sprintf("%s (process %d)", u.command, u.pid))
	}
	return warn(say("%d processes have files of the home directory open for writing: %s", len(users), named(words)),
		"what they write, the node may lose or find damaged", "end those that are not the node")
}

// fromBackup are the files that cannot be made again.
var fromBackup = []string{homedir.KeyFile, "zones/*.key", "capability.keys", "swarm.key"}

func checkBackup(_ context.Context, e *exam) result {
	var found []string
	var newest time.Time
	for _, pattern := range fromBackup {
		names, _ := filepath.Glob(filepath.Join(e.Home, pattern)) // the patterns are well-formed
		for _, name := range names {
			if info, err := os.Stat(name); err == nil {
				found = append(found, filepath.Base(name))
				if info.ModTime().After(newest) {
					newest = info.ModTime()
				}
			}
		}
	}
	if len(found) == 0 {
		return skip("there are no keys yet")
	}
	return note(say("keys in the home directory: %d, the newest of %s (%s); allium does not know of copies", len(found),
		plain(newest.UTC().Format(time.DateOnly)), named(found)),
		"without a copy the identity, the zones and the tokens are lost with this disk",
		"copy them after each new key, as docs/running/README.md#backup says")
}

// statErr returns the error of a look at a file, without its path.
func statErr(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "it does not exist"
	}
	return errno(err)
}
