package main

import (
	"fmt"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// equip adds to every host what the simulator's hosts lack and hosts of a SAN have: a host name, a
// LUN with two paths for every datastore, and the settings that `doctor --host` reads.
func equip(model *simulator.Model, datastores int) {
	for _, object := range model.Map().All("HostSystem") {
		host := object.(*simulator.HostSystem)
		label, domain, _ := strings.Cut(host.Name, ".")
		host.Config.Network.DnsConfig = &types.HostDnsConfig{HostName: label, DomainName: domain}
		options := model.Map().Get(*host.ConfigManager.AdvancedOption).(*simulator.OptionManager)
		options.UpdateOptions(&types.UpdateOptions{ChangedValue: []types.BaseOptionValue{
			&types.OptionValue{Key: "Syslog.global.logHost", Value: "udp://collector.lab.example:514"},
			&types.OptionValue{Key: "Syslog.global.remoteHost.maxMsgLen", Value: int32(1024)},
		}})
		storage := &types.HostStorageDeviceInfo{MultipathInfo: &types.HostMultipathInfo{}}
		volumes := &types.HostFileSystemVolumeInfo{}
		for number := 1; number <= datastores; number++ {
			storage.ScsiLun = append(storage.ScsiLun, lun(number))
			storage.MultipathInfo.Lun = append(storage.MultipathInfo.Lun, paths(number))
			volumes.MountInfo = append(volumes.MountInfo, types.HostFileSystemMountInfo{Volume: volume(number)})
		}
		host.Config.StorageDevice, host.Config.FileSystemVolume = storage, volumes
	}
}

func lun(number int) *types.HostScsiDisk {
	return &types.HostScsiDisk{
		ScsiLun: types.ScsiLun{
			Key:           fmt.Sprintf("key-lun-%d", number),
			Uuid:          fmt.Sprintf("02%04d0000", number),
			CanonicalName: lunName(number),
			LunType:       "disk",
			Vendor:        "EQLOGIC ",
			Model:         "100E-00         ",
			Descriptor: []types.ScsiLunDescriptor{
				{Quality: "highQuality", Id: lunName(number)},
				{Quality: "mediumQuality", Id: fmt.Sprintf("vml.0200%02x0000%s", number, lunName(number)[4:])},
			},
			VStorageSupport: "vStorageSupported",
		},
		Capacity: types.HostDiskDimensionsLba{BlockSize: 512, Block: 4 << 30},
		Ssd:      types.NewBool(false), LocalDisk: types.NewBool(false),
	}
}

func paths(number int) types.HostMultipathInfoLogicalUnit {
	unit := types.HostMultipathInfoLogicalUnit{
		Key:                    fmt.Sprintf("key-unit-%d", number),
		Lun:                    fmt.Sprintf("key-lun-%d", number),
		Policy:                 &types.HostMultipathInfoLogicalUnitPolicy{Policy: "VMW_PSP_RR"},
		StorageArrayTypePolicy: &types.HostMultipathInfoLogicalUnitStorageArrayTypePolicy{Policy: "VMW_SATP_EQL"},
	}
	for channel := range 2 {
		unit.Path = append(unit.Path, types.HostMultipathInfoPath{
			Name:  fmt.Sprintf("vmhba33:C%d:T%d:L0", channel, number),
			State: "active",
			Transport: &types.HostInternetScsiTargetTransport{
				IScsiName: fmt.Sprintf("iqn.2001-05.com.equallogic:lab-%d", number),
			},
		})
	}
	return unit
}

func volume(number int) *types.HostVmfsVolume {
	return &types.HostVmfsVolume{
		HostFileSystemVolume: types.HostFileSystemVolume{Type: "VMFS", Name: datastoreName(number)},
		Uuid:                 fmt.Sprintf("5f2a77c1-9be0d6d2-41aa-0025b5aa%04x", number),
		Extent:               []types.HostScsiDiskPartition{{DiskName: lunName(number), Partition: 1}},
	}
}
