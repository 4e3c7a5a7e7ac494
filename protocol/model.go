package protocol

import "slices"

// models are the models of a cluster's state, which package op describes. Their tables of
// operations are their commands' rows, which are generated; an operation's place in the table
// is its id's in the family. From ownIDs on, the family has commands with handlers of their own.
var models = [...]struct {
	name   string
	first  Command // the family's bits of the ids
	prefix string  // of the commands' names
}{
	{"landing", StStatus, "ST"}, // in the family of player storage, as is the next
	{"lander", LdSettings, "LD"},
	{"history", 0x0300, "CF"},
	{"flow", 0x0400, "FL"},
	{"bench", 0x0500, "BN"},
	{"auth", 0x0600, "AU"},
	{"audit", 0x0700, "AD"},
	{"review", 0x0800, "RV"},
	{"secret", 0x0900, "SE"},
}

const ownIDs Command = 0x80

// OfModel is the command for an operation of a model, by its place in the model's table; 0 if
// there is no such model.
func OfModel(model string, place int) Command {
	for _, m := range models {
		if m.name == model {
			return m.first + Command(place)
		}
	}
	return 0
}

// PrefixOf begins the names of a model's commands.
func PrefixOf(model string) string {
	for _, m := range models {
		if m.name == model {
			return m.prefix
		}
	}
	return ""
}

// Model is the model that c, a request or a reply, belongs to; empty if there is none.
func (c Command) Model() string {
	for _, m := range models {
		if c.Request()&^(ownIDs-1) == m.first {
			return m.name
		}
	}
	return ""
}

// AppendAnswer appends the reply to a model's command: the answer, which is a JSON object, and
// the code of success.
func AppendAnswer(dst, object []byte) []byte {
	dst = append(dst, `{"code":0`...)
	if len(object) > len("{}") {
		dst = append(dst, ',')
	}
	return append(dst, object[1:]...)
}

// CheckSuccess returns the refusal that a reply is, a *RefusedError, or what is wrong with it;
// nil: it is an answer.
func CheckSuccess(body []byte) error { return new(Request).parseSuccess(body) }

// Commands is the whole table in the order of ids. It must not be changed.
var Commands = slices.Concat(ownCommands, landingCommands, landerCommands, historyCommands, configWatchCommands, flowCommands, benchCommands, authCommands, auditCommands, reviewCommands, secretCommands)
