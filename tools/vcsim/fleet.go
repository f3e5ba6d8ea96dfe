package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/simulator/vpx"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"
)

type size struct {
	clusters, hosts, datastores, vms int
	prefix                           string // of the VMs' names
}

type builder struct {
	ctx      context.Context
	client   *vim25.Client
	registry *simulator.Registry
	scratch  string // a folder for the simulator's own files
}

// empty returns a vCenter without any objects.
func empty() *simulator.Model {
	return &simulator.Model{ServiceContent: vpx.ServiceContent, RootFolder: vpx.RootFolder}
}

// build creates the datacenter "lab": hosts esx001.lab.example, …, spread over cluster-1, …;
// datastores san-01, …, on every host; VMs <prefix>0001, …, spread over hosts and datastores.
// Nothing is random: after every start, a VM has the same id, host and datastore.
func build(model *simulator.Model, size size, scratch string) error {
	ctx := context.Background()
	client, err := vim25.NewClient(ctx, model.Service)
	if err != nil {
		return err
	}
	b := &builder{ctx: ctx, client: client, registry: model.Map(), scratch: scratch}
	lab, err := object.NewRootFolder(client).CreateDatacenter(ctx, "lab")
	if err != nil {
		return err
	}
	folders, err := lab.Folders(ctx)
	if err != nil {
		return err
	}
	clusters := make([]*object.ClusterComputeResource, size.clusters)
	pools := make([]*object.ResourcePool, size.clusters)
	for i := range clusters {
		name := fmt.Sprintf("cluster-%d", i+1)
		if clusters[i], err = folders.HostFolder.CreateCluster(ctx, name, types.ClusterConfigSpecEx{}); err != nil {
			return err
		}
		if pools[i], err = clusters[i].ResourcePool(ctx); err != nil {
			return err
		}
	}
	hosts := make([]*object.HostSystem, size.hosts)
	for i := range hosts {
		if hosts[i], err = b.addHost(clusters[i%size.clusters], i+1); err != nil {
			return err
		}
		if err = b.mount(hosts[i], size.datastores); err != nil {
			return err
		}
	}
	for i := range size.vms {
		host := i % size.hosts
		// Every host has VMs on several datastores.
		datastore := (i + i/size.hosts) % size.datastores
		if err = b.addMachine(folders.VmFolder, pools[host%size.clusters], hosts[host], datastore+1, fmt.Sprintf("%s%04d", size.prefix, i+1)); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) addHost(cluster *object.ClusterComputeResource, number int) (*object.HostSystem, error) {
	spec := types.HostConnectSpec{HostName: fmt.Sprintf("esx%03d.lab.example", number)}
	made, err := b.result(cluster.AddHost(b.ctx, spec, true, nil, nil))
	if err != nil {
		return nil, err
	}
	return object.NewHostSystem(b.client, made), nil
}

func (b *builder) mount(host *object.HostSystem, datastores int) error {
	system, err := host.ConfigManager().DatastoreSystem(b.ctx)
	if err != nil {
		return err
	}
	for i := range datastores {
		name := datastoreName(i + 1)
		folder := filepath.Join(b.scratch, name)
		if err = os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if _, err = system.CreateLocalDatastore(b.ctx, name, folder); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) addMachine(folder *object.Folder, pool *object.ResourcePool, host *object.HostSystem, datastore int, name string) error {
	datastorePath := fmt.Sprintf("[%s]", datastoreName(datastore))
	var devices object.VirtualDeviceList
	controller, err := devices.CreateSCSIController("pvscsi")
	if err != nil {
		return err
	}
	disk := devices.CreateDisk(
		controller.(types.BaseVirtualController),
		types.ManagedObjectReference{},
		fmt.Sprintf("%s %s/%s.vmdk", datastorePath, name, name),
	)
	disk.CapacityInKB = 10 << 20
	changes, err := append(devices, controller, disk).ConfigSpec(types.VirtualDeviceConfigSpecOperationAdd)
	if err != nil {
		return err
	}
	made, err := b.result(folder.CreateVM(b.ctx, types.VirtualMachineConfigSpec{
		Name:         name,
		GuestId:      string(types.VirtualMachineGuestOsIdentifierOtherGuest),
		Files:        &types.VirtualMachineFileInfo{VmPathName: datastorePath},
		DeviceChange: changes,
	}, pool, host))
	if err != nil {
		return err
	}
	_, err = object.NewVirtualMachine(b.client, made).PowerOn(b.ctx)
	return err
}

// result waits for a task directly: the API's method takes 20 ms per wait, which is a minute and a
// half for a fleet of 2,000 VMs.
func (b *builder) result(task *object.Task, err error) (types.ManagedObjectReference, error) {
	if err != nil {
		return types.ManagedObjectReference{}, err
	}
	running := b.registry.Get(task.Reference()).(*simulator.Task)
	var info types.TaskInfo
	for info.State != types.TaskInfoStateSuccess {
		b.registry.WithLock(&simulator.Context{}, running, func() { info = running.Info })
		if info.State == types.TaskInfoStateError {
			return types.ManagedObjectReference{}, fmt.Errorf("%s: %s", info.Name, info.Error.LocalizedMessage)
		}
		time.Sleep(100 * time.Microsecond)
	}
	return info.Result.(types.ManagedObjectReference), nil
}

func datastoreName(number int) string {
	return fmt.Sprintf("san-%02d", number)
}

func setSessionTimeout(model *simulator.Model, timeout string) {
	options := model.Map().OptionManager()
	options.UpdateOptions(&types.UpdateOptions{ChangedValue: []types.BaseOptionValue{
		&types.OptionValue{Key: "config.vmacore.soap.sessionTimeout", Value: timeout},
	}})
}
