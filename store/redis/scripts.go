package redis

import (
	"crypto/sha1" // it is how Redis names scripts
	_ "embed"
	"encoding/hex"

	"github.com/redis/rueidis"
)

// script is a Lua script that Redis runs in one step.
type script struct {
	text, sum string
	reads     bool // it only reads
}

var (
	//go:embed lua/begin.lua
	beginText string
	//go:embed lua/moves.lua
	movesText string
	//go:embed lua/info.lua
	infoText string
	//go:embed lua/open.lua
	openText string
	//go:embed lua/commit.lua
	commitText string
	//go:embed lua/claim.lua
	claimText string
	//go:embed lua/renew.lua
	renewText string
	//go:embed lua/now.lua
	nowText string
	//go:embed lua/due.lua
	dueText string
	//go:embed lua/bands.lua
	bandsText string
	//go:embed lua/page.lua
	pageText string
	//go:embed lua/docs.lua
	docsText string
)

var (
	infoScript   = newScript(true, infoText)
	openScript   = newScript(false, openText)
	commitScript = newScript(false, movesText, commitText)
	claimScript  = newScript(false, movesText, claimText)
	renewScript  = newScript(false, renewText)
	nowScript    = newScript(true, nowText)
	dueScript    = newScript(true, dueText)
	bandsScript  = newScript(true, bandsText)
	pageScript   = newScript(true, pageText)
	docsScript   = newScript(true, docsText)
)

func newScript(reads bool, parts ...string) *script {
	text := beginText
	for _, part := range parts {
		text += part
	}
	sum := sha1.Sum([]byte(text))
	return &script{text: text, sum: hex.EncodeToString(sum[:]), reads: reads}
}

// bySum is the call of a script that Redis knows.
func (sc *script) bySum(s *Store, args []string) rueidis.Completed {
	if sc.reads {
		return s.client.B().EvalshaRo().Sha1(sc.sum).Numkeys(1).Key(s.prefix).Arg(args...).Build()
	}
	return s.client.B().Evalsha().Sha1(sc.sum).Numkeys(1).Key(s.prefix).Arg(args...).Build()
}

// whole is the call of a script with its text, by which Redis comes to know it.
func (sc *script) whole(s *Store, args []string) rueidis.Completed {
	if sc.reads {
		return s.client.B().EvalRo().Script(sc.text).Numkeys(1).Key(s.prefix).Arg(args...).Build()
	}
	return s.client.B().Eval().Script(sc.text).Numkeys(1).Key(s.prefix).Arg(args...).Build()
}
