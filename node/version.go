package node

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"allium/gateway/api"
)

// Release is the version that the source is, or becomes next. A build that is not told a version
// (see the Makefile) is a "-dev" of it. A release has a tag of the same name.
const Release = "v0.1.0"

// The linker sets these from the repository (see the Makefile). After a plain `go build` they are
// empty, and the module's build information is used.
var (
	version  = ""
	commit   = ""
	date     = "" // of the commit, in RFC 3339
	modified = "" // "true" if the files differed from the commit
)

// ThisVersion returns the version of the running binary.
func ThisVersion() api.Version {
	settings := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	return api.Version{
		Version:  cmp.Or(version, Release+"-dev"),
		Commit:   cmp.Or(commit, settings["vcs.revision"]),
		Date:     cmp.Or(date, settings["vcs.time"]),
		Modified: cmp.Or(modified, settings["vcs.modified"]) == "true",
		Go:       runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
	}
}
