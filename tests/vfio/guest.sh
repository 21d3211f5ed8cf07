#!/bin/busybox sh
# The first process of the guest of guest_test.py: gives devices to vfio-pci, runs dxgkit on them, says of each check "ok" with the time since the start, or "FAILED", and
# turns the machine off.
busybox=/bin/busybox
$busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
cd /tmp || exit

edu=0000:01:00.0
fixed=0000:00:05.0 # an edu that cannot be reset
gpu=0000:02:00.0
passed=0
failed=0

# check NAME EXIT-CODE PATTERN COMMAND...: the code is right, and a line of the output matches. What it wrote is then in /tmp/last.
check() {
  name=$1 code=$2 pattern=$3
  shift 3
  "$@" > out 2>&1 < /dev/null
  got=$?
  cp out last
  if [ $got = "$code" ] && grep -q -e "$pattern" out; then
    echo "ok $name ($(cut -d ' ' -f 1 /proc/uptime) s)"
    passed=$((passed + 1))
  else
    echo "FAILED $name: exit code $got, expected $code and $pattern"
    grep -A 14 -e ": violation" -e ": bug-check" -e ": start failure" out | head -n 60
    grep -v " skipped " out | tail -n 40
    failed=$((failed + 1))
  fi
}

verify() { dxgkit verify "$@" --memory 64M; }
bind() {
  echo vfio-pci > /sys/bus/pci/devices/$1/driver_override
  echo $1 > /sys/bus/pci/drivers_probe
}

# --- what is not ready is refused
check "no-module" 1 "it has no driver: bind it to vfio-pci" verify /drivers/edu.so --device vfio:$edu
for module in irqbypass vfio vfio_virqfd vfio_iommu_type1 vfio-pci-core vfio-pci; do
  insmod /modules/$module.ko || echo "FAILED module $module"
done
check "no-device" 1 "there is no such PCI device" verify /drivers/edu.so --device vfio:0000:00:1e.7
check "not-bound" 1 "it has no driver: bind it to vfio-pci" verify /drivers/edu.so --device vfio:$edu
bind $edu
bind $fixed
bind $gpu
check "no-reset" 1 "it cannot be reset" verify /drivers/edu.so --device vfio:$fixed
check "simulation" 2 "cannot be simulated" verify /drivers/edu.so --device vfio:$edu --mode sim

# Everybody else: no capability to lock memory, and no log of Linux.
echo "other:x:1000:1000::/tmp:/bin/sh" > /etc/passwd
as_other() { su other -c "$*"; }
verify_command="dxgkit verify /drivers/edu.so --memory 64M --device vfio:$edu"
check "no-permission" 1 "no permission for /dev/vfio/[0-9]*: run as root" as_other "$verify_command,faults=off"
chown other /dev/vfio/*
check "no-log" 1 "the log of Linux (/dev/kmsg) cannot be read" as_other "$verify_command"
check "memlock" 1 "DMA needs 114688 KiB of locked memory and the limit is 64 KiB: raise it (ulimit -l 114688)" \
  as_other "ulimit -l 64; $verify_command,faults=off"
with_locked_memory() { (ulimit -l 114688; as_other "$*"); } # only root can raise the limit
check "as-other" 0 "^clean: " with_locked_memory "$verify_command,faults=off --step restart"

# --- edu: every step that needs no client; both forms; registers trapped; both kinds of interrupts
check "edu" 0 "^clean: " verify /drivers/edu.sys --device vfio:$edu
check "edu-twin" 0 "^clean: " verify /drivers/edu.so --device vfio:$edu --step restart
jobs="--client /drivers/edu_client.so --step paging --step render --step restart"
check "edu-dma" 0 "^clean: " verify /drivers/edu.sys --device vfio:$edu $jobs
check "edu-trapped" 0 "^clean: " verify /drivers/edu.sys --device vfio:$edu,trap-registers=on $jobs --trace trace.txt
check "edu-trace" 0 "BAR 0 +0x98: write 4 bytes 0x7" cat trace.txt
check "edu-line" 0 "^clean: " verify /drivers/edu.sys --device vfio:$edu,interrupts=intx $jobs
check "edu-without-reset" 0 "^clean: " verify /drivers/edu.sys --device vfio:$fixed,reset=off $jobs

# --- a DMA that goes astray: memory is untouched, Linux logs a fault, and the finding names the address
check "edu-astray" 1 "SEG-51: violation in DMA" verify /drivers/edu_astray.sys --device vfio:$edu $jobs
check "edu-astray-address" 0 "device 1234:11e8 wrote at bus address 0x600[0-9a-f]*; it has had no owner" cat last
check "edu-astray-log" 0 "DMA Write.*01:00.0. fault addr 0x600" dmesg

# --- Linux takes the device back while the driver works. It waits until dxgkit has let go.
take_back() {
  dxgkit verify /drivers/edu.sys --device vfio:$edu --memory 64M --client /drivers/edu_client.so &
  until grep -q vfio-msi /proc/interrupts; do :; done
  echo $edu > /sys/bus/pci/drivers/vfio-pci/unbind &
  wait $!
  unbound=$?
  wait
  echo "unbound: $unbound"
}
check "edu-taken-back" 0 "Linux wants the device back" take_back
check "edu-unbound" 0 "^unbound: 0" cat last

# --- QEMU's virtio GPU: every step of its driver with the 2D client, and pictures that QEMU compares while the program holds them
check "virtio-gpu" 0 "^clean: " verify /drivers/virtiogpu.sys --device vfio:$gpu --client /drivers/virtiogpu_client.so
cat > stack.toml << END
driver = "/drivers/virtiogpu.sys"
devices = ["vfio:$gpu"]
memory = "64M"
tdr_delay_ms = 20000
findings = "/tmp/findings"
END
DXGKIT_STACK=stack.toml LD_LIBRARY_PATH=/drivers picture_client < /dev/console > /dev/console 2> last
echo "end: $?" >> last
cat findings >> last
check "virtio-gpu-pictures" 0 "^end: 0" cat last
check "virtio-gpu-findings" 1 "^0$" grep -c -e ": violation" -e ": bug-check" -e ": start failure" last

echo "guest: $passed passed, $failed failed"
poweroff -f
