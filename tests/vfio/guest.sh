#!/bin/busybox sh
# The first process of the guest of guest_test.py: gives devices to vfio-pci, runs dxgkit on them, says of each check "ok" or "FAILED", and
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
passed=0
failed=0

# check NAME EXIT-CODE PATTERN COMMAND...: the code is right, and a line of the output matches. What it wrote is in /tmp/out.
check() {
  name=$1 code=$2 pattern=$3
  shift 3
  "$@" > out 2>&1 < /dev/null
  got=$?
  if [ $got = "$code" ] && grep -q -e "$pattern" out; then
    echo "ok $name"
    passed=$((passed + 1))
  else
    echo "FAILED $name: exit code $got, expected $code and $pattern"
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
check "no-reset" 1 "it cannot be reset" verify /drivers/edu.so --device vfio:$fixed
check "simulation" 2 "cannot be simulated" verify /drivers/edu.so --device vfio:$edu --mode sim

# --- edu
check "edu" 0 "^clean: " verify /drivers/edu.so --device vfio:$edu
check "edu-sys" 0 "^clean: " verify /drivers/edu.sys --device vfio:$edu

echo "guest: $passed passed, $failed failed"
poweroff -f
