//! Network cards.

use assay_manifest::NetworkCard;

use crate::Root;

/// The kernel's folder of network interfaces.
const CLASS: &str = "/sys/class/net";

/// Returns the interfaces that are backed by a device; if there is none (a container), all but the loopback.
pub(crate) fn cards(root: &Root) -> Result<Vec<NetworkCard>, String> {
    let names: Vec<_> = root.names(CLASS, "").into_iter().filter(|name| name != "lo").collect();
    if names.is_empty() && !root.exists(CLASS) {
        return Err(format!("cannot read `{CLASS}`"));
    }
    let has_device = |name: &&String| root.exists(&format!("{CLASS}/{name}/device"));
    let real: Vec<_> = names.iter().filter(has_device).cloned().collect();
    let mut shown = if real.is_empty() { names } else { real };
    shown.sort();
    Ok(shown.into_iter().map(|name| card(root, name)).collect())
}

fn card(root: &Root, name: String) -> NetworkCard {
    NetworkCard {
        driver: root.link_name(&format!("{CLASS}/{name}/device/driver")).unwrap_or_default(),
        // A link that is down reports -1, or nothing at all.
        speed_mbps: root.number(&format!("{CLASS}/{name}/speed")).unwrap_or(0),
        mtu: root.number(&format!("{CLASS}/{name}/mtu")).unwrap_or(0),
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn shown(tree: &Tree) -> String {
        let words = |card: NetworkCard| format!("{} {:?} {} {}", card.name, card.driver, card.speed_mbps, card.mtu);
        cards(&tree.root()).map_or_else(|why| why, |cards| cards.into_iter().map(words).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn devices_come_before_virtual_interfaces() {
        let tree = Tree::new(&[
            ("sys/class/net/lo/mtu", "65536\n"),
            ("sys/class/net/docker0/mtu", "1500\n"),
            ("sys/class/net/eth1/speed", "-1\n"),
            ("sys/class/net/eth1/mtu", "1500\n"),
            ("sys/class/net/eth1/device/uevent", ""),
            ("sys/class/net/eth0/speed", "100000\n"),
            ("sys/class/net/eth0/mtu", "9000\n"),
            ("sys/class/net/eth0/device/driver", "->../../../../bus/pci/drivers/mlx5_core"),
        ]);
        insta::assert_snapshot!(shown(&tree), @r#"
        eth0 "mlx5_core" 100000 9000
        eth1 "" 0 1500
        "#);
    }

    #[test]
    fn a_container_shows_its_virtual_interface() {
        let tree = Tree::new(&[("sys/class/net/lo/mtu", "65536\n"), ("sys/class/net/eth0/mtu", "1450\n")]);
        insta::assert_snapshot!(shown(&tree), @r#"eth0 "" 0 1450"#);
        insta::assert_snapshot!(shown(&Tree::new(&[])), @"cannot read `/sys/class/net`");
    }
}
