package main

import (
	"strings"

	"github.com/spf13/cobra"

	"allium/cmd/allium/failure"
	"allium/cmd/allium/source"
	"allium/protocols/ticket"
)

// tasks says what each command does, in words that follow "cannot". A phrase that
// ends with a space is followed by the command's first argument, which the part
// after | connects with the verb. An empty phrase is for commands whose errors name
// themselves what failed.
var tasks = map[string]string{
	"":                 "run the command",
	"add":              "add",
	"announce":         "announce ",
	"audit verify":     "verify the audit log",
	"cat":              "read ",
	"config check":     "use this configuration",
	"config diff":      "compare the configuration",
	"config explain":   "explain ",
	"config get":       "show ",
	"config set":       "set ",
	"config show":      "show the configuration",
	"config unset":     "unset ",
	"connect":          "connect|to ",
	"diff":             "compare",
	"durability":       "show the copies|of ",
	"disconnect":       "disconnect|from ",
	"docs":             "write the pages",
	"follow":           "follow ",
	"gc plan":          "plan the collection",
	"gc run":           "collect",
	"gc why":           "look for what keeps it",
	"doctor":           "examine the node",
	"doctor reach":     "say who can dial the node",
	"doctor site":      "examine the website ",
	"get":              "get ",
	"id":               "show the peer id",
	"init":             "make the home directory",
	"limits":           "list the limits",
	"ls":               "list ",
	"name link":        "make the records|for ",
	"name ls":          "list the names of this node",
	"name publish":     "publish ",
	"name watch":       "watch the names",
	"name withdraw":    "withdraw ",
	"node drain":       "drain the node",
	"node reload":      "reload the configuration",
	"pack inspect":     "inspect ",
	"pack ls":          "list the packs",
	"pack mount":       "mount ",
	"pack unmount":     "unmount ",
	"peers":            "list the peers",
	"pin add":          "pin ",
	"pin import":       "import pins|from ",
	"pin ls":           "list the pins",
	"pin rm":           "unpin ",
	"ping":             "ping ",
	"providers":        "find providers|of ",
	"publish":          "publish ",
	"resolve":          "resolve ",
	"run":              "run the node",
	"seeds":            "list the seeds",
	"seeds inspect":    "trust ",
	"seeds sign":       "sign the seeds",
	"share":            "share ",
	"sim dht":          "simulate",
	"sim fetch":        "simulate",
	"stat":             "describe ",
	"store damage":     "list the damage",
	"store rebuild":    "rebuild the index",
	"swarm-key new":    "make a swarm key",
	"swarm-key show":   "show the swarm key",
	"testnet chaos":    "",
	"testnet down":     "end the network",
	"testnet run":      "",
	"testnet scenario": "",
	"testnet status":   "show the network",
	"testnet up":       "run the network",
	"token attenuate":  "narrow the capability",
	"token inspect":    "read the capability",
	"token key ls":     "list the keys",
	"token key retire": "retire the key",
	"token key rotate": "make a new key",
	"token mint":       "make a capability",
	"token revoke":     "revoke",
	"verify":           "verify ",
	"version":          "show the version",
	"why":              "show the lookup|of ",
	"zone export":      "export the zone",
	"zone import":      "import the zone",
	"zone ls":          "list the zones",
	"zone new":         "make a zone",
}

// taskOf returns what cmd was told to do. The first argument is part of it only
// where it is no secret.
func taskOf(cmd *cobra.Command) failure.Task {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	verb, known := tasks[name]
	if !known {
		verb = "run `" + cmd.CommandPath() + "`"
	}
	phrase, onFirst := strings.CutSuffix(verb, " ")
	task := failure.Task{Help: cmd.CommandPath() + " --help", Why: !source.ThroughGateway(cmd)}
	task.Verb, task.Link, _ = strings.Cut(phrase, "|")
	if arg := cmd.Flags().Args(); onFirst {
		if len(arg) > 0 && (ticket.Is(arg[0]) || arg[0] == "-") {
			task.Subject = "" // a ticket is a secret
		} else if len(arg) > 0 {
			task.Subject = arg[0]
		} else if name == "verify" {
			task.Verb = "verify the store"
		}
	}
	return task
}
