package server

import (
	"errors"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

// told is an error as it stands in a list of results, where each item can fail by itself.
type told struct {
	Code   string         `json:"code" doc:"the kind of error, for programs"`
	Detail string         `json:"detail" doc:"what went wrong and what to do about it"`
	Errors []FieldProblem `json:"errors,omitempty" doc:"the fields that are wrong"`
}

func tell(err error) *told {
	if err == nil {
		return nil
	}
	p, _ := problemOf(err)
	return &told{Code: p.Code, Detail: p.Detail, Errors: p.Errors}
}

// errTold stands for failures of the server that are not told in detail.
var errTold = errors.New("the server could not do this; its log says why: ask who runs it")

// telling is err as it may be told in a list of results: the server's own
// failures are logged, and only named to the outside.
func (s *Server) telling(err error) error {
	switch wire.ErrorCode(err) {
	case "internal":
		s.Log.Error("request failed in part", "err", err)
		return errTold
	case "corrupt":
		s.Log.Error("request failed in part", "err", err)
		return haulier.ErrCorrupt
	}
	return err
}
