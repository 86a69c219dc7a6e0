package node

import (
	"runtime"
	"runtime/debug"

	"allium/gateway/api"
)

// version and commit are set by the linker (see the Makefile). After a plain
// `go build` they are empty, and the module's build information is used.
var (
	version = ""
	commit  = ""
)

// ThisVersion returns the version of the running binary.
func ThisVersion() api.Version {
	v := api.Version{Version: version, Commit: commit, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok && v.Version == "" {
		v.Version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && v.Commit == "" {
				v.Commit = s.Value
			}
		}
	}
	if v.Version == "" {
		v.Version = "devel"
	}
	return v
}
