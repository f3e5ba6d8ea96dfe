package main

import (
	"fmt"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// performance returns all instances for the wildcard "*", as a vCenter does; the simulator treats
// the asterisk as an instance's name. Steps end at multiples of 20 s, and none is older than an
// hour.
type performance struct {
	*simulator.PerformanceManager
	luns []string
}

func measure(model *simulator.Model, datastores int) {
	manager := model.Map().Get(*model.ServiceContent.PerfManager).(*simulator.PerformanceManager)
	luns := make([]string, datastores)
	for i := range luns {
		luns[i] = lunName(i + 1)
	}
	model.Map().Put(&performance{manager, luns})
}

func (p *performance) QueryPerf(ctx *simulator.Context, request *types.QueryPerf) soap.HasFault {
	answered := *request
	answered.QuerySpec = nil
	for _, spec := range request.QuerySpec {
		var metrics []types.PerfMetricId
		for _, metric := range spec.MetricId {
			if metric.Instance != "*" {
				metrics = append(metrics, metric)
				continue
			}
			for _, instance := range p.instances(spec.Entity) {
				metrics = append(metrics, types.PerfMetricId{CounterId: metric.CounterId, Instance: instance})
			}
		}
		spec.MetricId = metrics
		spec.StartTime, spec.EndTime = steps(spec.StartTime, spec.EndTime)
		answered.QuerySpec = append(answered.QuerySpec, spec)
	}
	return p.PerformanceManager.QueryPerf(ctx, &answered)
}

func (p *performance) instances(entity types.ManagedObjectReference) []string {
	if entity.Type == "VirtualMachine" {
		return []string{"scsi0:0"}
	}
	return p.luns
}

// steps returns the first and last step after the start and up to the end: the simulator also
// returns the step at the start, and future steps.
func steps(start, end *time.Time) (*time.Time, *time.Time) {
	const step = 20 * time.Second
	last := time.Now().UTC()
	if end != nil && end.Before(last) {
		last = end.UTC()
	}
	last = last.Truncate(step)
	first := last.Add(-time.Hour)
	if start != nil && start.After(first) {
		first = start.UTC()
	}
	first = first.Truncate(step).Add(step)
	if first.After(last) {
		first = last.Add(step) // none: the simulator counts from one to the other
	}
	return &first, &last
}

func lunName(number int) string {
	return fmt.Sprintf("naa.6000c29f00000000000000000000%04x", number)
}
