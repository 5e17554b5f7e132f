//! SVM attributes.

use super::fake::PERM;
use super::*;
use crate::driver::SvmAttribute;
use crate::error::Error;

fn attribute(kind: u32, value: u32) -> SvmAttribute {
    SvmAttribute { kind, value }
}

#[test]
fn case_31_ranges_and_nodes_are_checked() {
    let mut m = Bench::svm().start();
    let access = [attribute(2, 1)];
    for (start, size) in [(0, P), (A, 0), (A + 1, P), (A, P + 1)] {
        assert_eq!(m.svm_set_attributes(range(start, size), &access), Err(Error::InvalidParameter));
        assert_eq!(m.svm_get_attributes(start, size, &mut access.clone()), Err(Error::InvalidParameter));
    }
    for kind in 2..=4 {
        for node in [0, 9] {
            assert_eq!(m.svm_set_attributes(range(A, P), &[attribute(kind, node)]), Err(Error::InvalidNode));
            assert_eq!(m.svm_get_attributes(A, P, &mut [attribute(kind, node)]), Err(Error::InvalidNode));
        }
    }
    assert_eq!(m.svm_set_attributes(range(A, P), &[attribute(1, u32::MAX)]), Err(Error::InvalidNode));
    assert_eq!(m.svm_set_attributes(range(A, P), &[attribute(0, 9)]), Err(Error::InvalidNode));
    assert!(m.driver.svm_calls.is_empty());
}

#[test]
fn nodes_become_gpu_ids_and_back() {
    let mut m = Bench::svm().start();
    let asked = [attribute(0, u32::MAX), attribute(0, 2), attribute(1, 0), attribute(3, 1), attribute(5, 77)];
    assert_eq!(m.svm_set_attributes(range(A, P), &asked), Ok(()));
    let sent: Vec<u32> = m.driver.svm_calls[0].2.iter().map(|it| it.value).collect();
    assert_eq!(sent, [u32::MAX, 0x1002, 0, 0x1001, 77]);

    m.driver.svm_answer = [u32::MAX, 0, 0x1001, 0x1002, 0x1001].to_vec();
    let mut asked = [attribute(0, 5), attribute(1, 6), attribute(0, 0), attribute(2, 1), attribute(5, 0)];
    assert_eq!(m.svm_get_attributes(A, P, &mut asked), Ok(()));
    assert_eq!(asked.map(|it| it.value), [u32::MAX, 0, 1, 2, 0x1001]);
    let sent: Vec<u32> = m.driver.svm_calls[1].2.iter().map(|it| it.value).collect();
    assert_eq!(sent, [5, 6, 0, 0x1001, 0], "locations go as they are");

    m.driver.svm_answer = [0x77].to_vec();
    let mut asked = [attribute(0, 0)];
    assert_eq!(m.svm_get_attributes(A, P, &mut asked), Err(Error::InvalidNode), "an unknown GPU");
    assert_eq!(asked[0].value, 0);
    m.driver.svm_error = Some(PERM);
    assert_eq!(m.svm_set_attributes(range(A, P), &[]), Err(Error::Failed));
}

#[test]
fn case_33_ours_more_attributes_than_the_ioctl_holds() {
    let mut m = Bench::svm().start();
    let many = std::vec![attribute(5, 1); 2050];
    assert_eq!(m.svm_set_attributes(range(A, P), &many), Err(Error::InvalidParameter));
    assert_eq!(m.svm_set_attributes(range(A, P), &many[..2044]), Ok(()));
    assert_eq!(m.svm_set_attributes(range(A, P), &many[..2045]), Err(Error::InvalidParameter));
}

#[test]
fn an_old_kernel_has_no_attributes() {
    let mut bench = Bench::svm();
    bench.opened.kfd_minor = 4;
    let mut m = bench.start();
    assert_eq!(m.svm_set_attributes(range(0, 0), &[]), Err(Error::NotSupported));
    assert_eq!(m.svm_get_attributes(0, 0, &mut []), Err(Error::NotSupported));
}
