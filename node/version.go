package node

import (
	"runtime"
	"runtime/debug"

	"allium/gateway/api"
)

// version and commit are set by the linker (see the Makefile); a plain
// `go build` leaves them to the module's build information.
var (
	version = ""
	commit  = ""
)

// ThisVersion is the running binary's version.
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
