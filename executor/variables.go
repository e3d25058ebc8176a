package executor

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/haulier/haulier"
)

// Variables are what the environment of each job's program tells of the job, as NAME=value in a fixed order.
func Variables(job *haulier.Job) []string {
	env := make([]string, 0, len(job.Results)+5)
	for i := range job.Results {
		if r := &job.Results[i]; r.Ref != "" && !bytes.ContainsRune(r.Result, 0) {
			env = append(env, "HAULIER_NEED_"+needName(r.Ref)+"="+string(r.Result))
		}
	}
	return append(env,
		"HAULIER_JOB_ID="+job.ID.String(),
		"HAULIER_ATTEMPT="+strconv.Itoa(job.Attempt),
		"HAULIER_TYPE="+job.Type,
		"HAULIER_QUEUE="+job.Queue,
		"HAULIER_TENANT="+job.Tenant,
	)
}

// needName is the name of a job that a job needs as part of that of a variable: capital letters and digits, others as _.
func needName(ref string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, ref)
}
