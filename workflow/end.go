package workflow

import "github.com/haulier/haulier"

// The job with which a run ends: it has nothing to run, and succeeds when the run has.
const (
	EndRef  = ".end" // its Flow.Ref, which no job of a text can have
	EndType = "workflow.end"
)

// Succeeded is the event that a run of the workflow posts when it has succeeded.
func Succeeded(name string) string { return "workflow:" + name }

// Started is the event by which the n-th trigger of a workflow, a schedule, starts its runs.
func Started(name string, n string) string { return "schedule:" + name + ":" + n }

// RunJobs is Jobs with one more at the end, whose state is that of the run: it needs the success of all jobs, except of
// those that are there for the failure of others, and what follows them: of these it needs the end.
func (w *Workflow) RunJobs(run Run) ([]haulier.Spec, error) {
	specs, err := w.Jobs(run)
	if err != nil {
		return nil, err
	}
	end := haulier.Spec{
		Tenant: run.Tenant, Group: run.ID, Type: EndType, Task: haulier.Task{None: &haulier.NoTask{}},
		Labels: map[string]string{LabelWorkflow: w.Name, LabelRun: run.ID},
		Flow:   &haulier.Flow{Ref: EndRef, Signal: Succeeded(w.Name)},
	}
	expected := map[string]bool{} // to succeed
	followed := map[string]bool{} // by another that is as expected as it
	for i := range specs {
		all := true
		for _, n := range specs[i].Needs {
			all = all && n.On == haulier.OnSucceeded && expected[n.Ref]
		}
		expected[specs[i].Ref] = all
		for _, n := range specs[i].Needs {
			followed[n.Ref] = followed[n.Ref] || all == expected[n.Ref]
		}
	}
	for i := range specs {
		ref, on := specs[i].Ref, haulier.OnSucceeded
		if followed[ref] {
			continue
		}
		if !expected[ref] {
			on = haulier.OnFinished
		}
		end.Needs = append(end.Needs, haulier.Need{Ref: ref, On: on})
	}
	return append(specs, end), nil
}
