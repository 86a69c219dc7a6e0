// Package settings has the command config. It puts configuration keys into words for a
// terminal: their values, their explanations and what an edit did.
package settings

import (
	"cmp"
	"fmt"

	"allium/node/config"
)

// Line returns the line of a key. If its group is not *group, the heading of the
// group comes first and *group is set. If quiet, it is only the key and its value.
func Line(v config.Value, group *string, quiet bool) string {
	if quiet {
		return v.Name + "=" + v.Value
	}
	mark, head := " ", ""
	if v.Changed {
		mark = "*"
	}
	if v.Group != *group {
		if *group != "" {
			head = "\n"
		}
		head += v.Group + "\n"
		*group = v.Group
	}
	return fmt.Sprintf("%s%s %-32s %-28s %s", head, mark, v.Name, v.Value, v.Source)
}

// Explanation explains a key whose value may come from file. If quiet, it is only
// the value.
func Explanation(e config.Explained, file string, quiet bool) string {
	if quiet {
		return e.Value.Value
	}
	from := string(e.Source)
	switch e.Source {
	case config.FromFixed:
		return fmt.Sprintf("%s (%s)\n  Fixed: nothing sets it. %s\n\n  value      %s",
			e.Name, e.Type, e.Doc, orEmpty(e.Value.Value))
	case config.FromDefault:
		from = "the default of the profile"
	case config.FromFile:
		from = file
	case config.FromEnv:
		from = "the environment, " + e.Env
	case config.FromFlag:
		from = "a flag"
	}
	return fmt.Sprintf(
		"%s (%s)\n  %s\n\n  value      %s\n  from       %s\n  default    %s\n  variable   %s\n  a change   %s",
		e.Name, e.Type, e.Doc, orEmpty(e.Value.Value), from, orEmpty(e.Default),
		cmp.Or(e.Env, "none can say this name"), changedFrom(e))
}

// orEmpty is s, or says that s is empty.
func orEmpty(s string) string {
	if s == "" {
		return "(empty)"
	}
	return s
}

// changedFrom says what puts a changed value of a key in force.
func changedFrom(e config.Explained) string {
	text := "takes a restart of the node"
	if e.Hot {
		text = "a reload (SIGHUP) applies it"
	}
	if e.Reread != "" {
		text += "; the file it names is read again " + e.Reread
	}
	return text
}

// Result says what a command did to a key of the configuration file, and what else it takes.
func Result(e config.Edited) string {
	if e.Type == "" && !e.Changed {
		return fmt.Sprintf("%s is not in %s", e.Name, e.File)
	}
	if e.Type == "" {
		return fmt.Sprintf("%s is out of %s", e.Name, e.File)
	}
	if !e.Changed {
		return fmt.Sprintf("%s = %s already; %s stays as it is", e.Name, orEmpty(e.Value.Value), e.File)
	}
	text := fmt.Sprintf("%s = %s", e.Name, orEmpty(e.Value.Value))
	if e.Before != e.Value.Value {
		text += fmt.Sprintf(" (was %s)", orEmpty(e.Before))
	}
	if e.Source == config.FromEnv {
		return text + fmt.Sprintf("\nThe environment wins: unset %s to use what %s says.", e.Env, e.File)
	}
	return text + "\nA running node: " + changedFrom(e.Explained) + "."
}
